package torch

// paged is a list that grows without copying, so that a large file never holds its records twice.
type paged[T any] struct {
	pages [][]T
	n     int
}

const pagedSize = 512

func (p *paged[T]) len() int { return p.n }

// add appends x and gives its number.
func (p *paged[T]) add(x T) uint32 {
	if p.n%pagedSize == 0 {
		p.pages = append(p.pages, make([]T, 0, pagedSize))
	}
	last := &p.pages[len(p.pages)-1]
	*last = append(*last, x)
	p.n++
	return uint32(p.n - 1)
}

func (p *paged[T]) at(i int) *T { return &p.pages[i/pagedSize][i%pagedSize] }

// lists keeps lists of values, all in common pages.
type lists struct {
	spans paged[listSpan]
	pages [][]value
}

type listSpan struct{ page, off, n uint32 }

const listPage = 4096 // values

func (l *lists) add(items []value) uint32 {
	last := len(l.pages) - 1
	if last < 0 || cap(l.pages[last])-len(l.pages[last]) < len(items) {
		l.pages = append(l.pages, make([]value, 0, max(listPage, len(items))))
		last++
	}
	off := len(l.pages[last])
	l.pages[last] = append(l.pages[last], items...)
	return l.spans.add(listSpan{uint32(last), uint32(off), uint32(len(items))})
}

func (l *lists) at(i int) []value {
	s := l.spans.at(i)
	return l.pages[s.page][s.off : s.off+s.n]
}
