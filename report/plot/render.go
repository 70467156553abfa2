package plot

import (
	"bytes"
	"fmt"
	"image"
	"image/png"
	"io"

	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgimg"
	"gonum.org/v1/plot/vg/vgsvg"
)

// Size is how large a picture is, in pixels.
type Size struct{ Width, Height int }

// The sizes that a picture can have.
const (
	leastWidth, leastHeight = 400, 225
	mostPixels              = 32 << 20
)

// Check says what is wrong with a size.
func (s Size) Check() error {
	switch {
	case s.Width < leastWidth || s.Height < leastHeight:
		return fmt.Errorf("%dx%d is too small to be read; at least %dx%d", s.Width, s.Height, leastWidth, leastHeight)
	case s.Width > mostPixels/s.Height:
		return fmt.Errorf("%dx%d is too large; up to %d million pixels", s.Width, s.Height, mostPixels>>20)
	}
	return nil
}

// Size is the one that suits a picture with so many panels.
func (pic *Picture) Size() Size {
	n := len(pic.Panels)
	if n <= 1 {
		return Size{1600, 900}
	}
	return Size{1600, 160 + 660*n}
}

// inch is 72 points.
const inch = 72

// WritePNG renders the picture in pixels.
func (pic *Picture) WritePNG(w io.Writer, s Size) error {
	if err := s.Check(); err != nil {
		return err
	}
	dpi := max(inch, (inch*s.Width+layoutWidth/2)/layoutWidth)
	c := vgimg.NewWith(vgimg.UseDPI(dpi), vgimg.UseWH(points(s.Width, dpi), points(s.Height, dpi)))
	pic.draw(draw.New(c))
	img := c.Image()
	if full, ok := img.(*image.RGBA); ok {
		return png.Encode(w, paletted(full))
	}
	return png.Encode(w, img)
}

func points(pixels, dpi int) vg.Length { return vg.Length(pixels) * inch / vg.Length(dpi) }

// WriteSVG renders the picture as vectors, that open with so many pixels.
func (pic *Picture) WriteSVG(w io.Writer, s Size) error {
	if err := s.Check(); err != nil {
		return err
	}
	height := vg.Length(s.Height) * layoutWidth / vg.Length(s.Width)
	c := vgsvg.New(layoutWidth, height)
	pic.draw(draw.New(c))
	var b bytes.Buffer
	if _, err := c.WriteTo(&b); err != nil {
		return err
	}
	text := b.Bytes()
	// The viewer's fonts are used: name others of the same widths for where the first is missing.
	text = bytes.ReplaceAll(text, []byte("font-family:Liberation Sans;font-variant:normal;"), []byte("font-family:Liberation Sans,Arial,Helvetica,sans-serif;"))
	text = bytes.ReplaceAll(text, []byte("font-weight:normal;font-style:normal;"), nil)
	text = bytes.ReplaceAll(text, []byte("font-style:normal;"), nil)
	old := fmt.Sprintf(`width="%.5gpt" height="%.5gpt"`, float64(layoutWidth), height.Points())
	text = bytes.Replace(text, []byte(old), fmt.Appendf(nil, `width="%d" height="%d"`, s.Width, s.Height), 1)
	_, err := w.Write(text)
	return err
}
