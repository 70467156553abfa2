package plot

import (
	"image"
	"image/color"
	"testing"
)

// TestPaletted keeps colours as they are where there are few, rare ones too, and near to what they were where there are many.
func TestPaletted(t *testing.T) {
	img := image.NewRGBA(image.Rect(0, 0, 300, 200))
	for y := range 200 {
		for x := range 300 {
			img.SetRGBA(x, y, color.RGBA{uint8(x), uint8(x + y), uint8(y), 0xff}) // many shades
			if y >= 100 {
				img.SetRGBA(x, y, color.RGBA{0xff, 0xff, 0xff, 0xff})
			}
		}
	}
	rare := color.RGBA{0xcc, 0x79, 0xa7, 0xff}
	img.SetRGBA(150, 150, rare)
	got := paletted(img)
	if n := len(got.Palette); n > 256 {
		t.Fatalf("%d colours", n)
	}
	if c := color.RGBAModel.Convert(got.At(150, 150)).(color.RGBA); c != rare && apart(img, got, 150, 150) > 24 {
		t.Errorf("the rare colour is %v", c)
	}
	for y := range 200 {
		for x := range 300 {
			if d := apart(img, got, x, y); d > 40 {
				t.Fatalf("%v is %v", img.At(x, y), got.At(x, y))
			}
		}
	}
	few := image.NewRGBA(image.Rect(0, 0, 16, 16))
	for i := range 256 {
		few.SetRGBA(i%16, i/16, color.RGBA{uint8(i), 7, uint8(255 - i), 0xff})
	}
	exact := paletted(few)
	for i := range 256 {
		if apart(few, exact, i%16, i/16) != 0 {
			t.Fatalf("%v is %v", few.At(i%16, i/16), exact.At(i%16, i/16))
		}
	}
}
