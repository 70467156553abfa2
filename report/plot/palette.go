package plot

import (
	"cmp"
	"image"
	"image/color"
	"slices"
)

// paletted brings a picture down to 256 colours. A plot has few, and many shades between them at the edges of lines and
// letters. Shades that can hardly be told apart become one, the more frequent, and no colour is far from what it was: nobody
// sees a difference, and the file is a third as large.
func paletted(img *image.RGBA) *image.Paletted {
	count := map[color.RGBA]int{}
	b := img.Bounds()
	at := func(x, y int) color.RGBA {
		i := img.PixOffset(x, y)
		return color.RGBA{img.Pix[i], img.Pix[i+1], img.Pix[i+2], 0xff}
	}
	for y := b.Min.Y; y < b.Max.Y; y++ {
		for x := b.Min.X; x < b.Max.X; x++ {
			count[at(x, y)]++
		}
	}
	all := make([]color.RGBA, 0, len(count))
	for c := range count {
		all = append(all, c)
	}
	slices.SortFunc(all, func(a, b color.RGBA) int {
		return cmp.Or(cmp.Compare(count[b], count[a]), cmp.Compare(number(a), number(b)))
	})
	kept := alike(all)
	index := make(map[color.RGBA]uint8, len(all))
	for _, c := range all {
		i, _ := nearest(kept, c)
		index[c] = uint8(i)
	}
	out := image.NewPaletted(b, nil)
	for _, c := range kept {
		out.Palette = append(out.Palette, c)
	}
	for y := b.Min.Y; y < b.Max.Y; y++ {
		for x := b.Min.X; x < b.Max.X; x++ {
			out.Pix[out.PixOffset(x, y)] = index[at(x, y)]
		}
	}
	return out
}

func number(c color.RGBA) int { return int(c.R)<<16 | int(c.G)<<8 | int(c.B) }

// alike picks at most 256 colours such that every other is as near to one of them as can be, the first ones first.
func alike(all []color.RGBA) []color.RGBA {
	for far := 0; ; far = 2*far + 12 {
		var kept []color.RGBA
		for _, c := range all {
			if _, d := nearest(kept, c); d > far {
				if kept = append(kept, c); len(kept) > 256 {
					break
				}
			}
		}
		if len(kept) <= 256 {
			return kept
		}
	}
}

// nearest is the number of the most similar colour, and how far it is.
func nearest(list []color.RGBA, c color.RGBA) (best, distance int) {
	distance = 1 << 30
	for i, k := range list {
		r, g, b := int(k.R)-int(c.R), int(k.G)-int(c.G), int(k.B)-int(c.B)
		if d := 2*r*r + 4*g*g + b*b; d < distance { // eyes see green best
			best, distance = i, d
		}
	}
	return best, distance
}
