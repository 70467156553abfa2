package plot

import (
	"cmp"
	"image"
	"image/color"
	"slices"
)

// paletted brings a picture down to 256 colours, the most frequent ones. A plot has few, and shades between them at the
// edges of lines and letters, of which the rare ones take the nearest that there is: nobody sees a difference, and the file
// is a third as large.
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
	kept := all[:min(len(all), 256)]
	index := make(map[color.RGBA]uint8, len(all))
	out := image.NewPaletted(b, nil)
	for i, c := range kept {
		index[c] = uint8(i)
		out.Palette = append(out.Palette, c)
	}
	for _, c := range all[len(kept):] {
		index[c] = nearest(kept, c)
	}
	for y := b.Min.Y; y < b.Max.Y; y++ {
		for x := b.Min.X; x < b.Max.X; x++ {
			out.Pix[out.PixOffset(x, y)] = index[at(x, y)]
		}
	}
	return out
}

func number(c color.RGBA) int { return int(c.R)<<16 | int(c.G)<<8 | int(c.B) }

// nearest is the number of the most similar colour.
func nearest(list []color.RGBA, c color.RGBA) uint8 {
	best, least := 0, 1<<30
	for i, k := range list {
		r, g, b := int(k.R)-int(c.R), int(k.G)-int(c.G), int(k.B)-int(c.B)
		if d := 2*r*r + 4*g*g + b*b; d < least {
			best, least = i, d
		}
	}
	return uint8(best)
}
