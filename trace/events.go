package trace

import (
	"iter"
	"slices"
)

const (
	pageShift = 13
	pageSize  = 1 << pageShift // events; 320 KiB a page
)

// Events is a growing list of events, kept in pages so that reading a large trace never copies what it
// has read and never holds it twice.
type Events struct {
	pages [][]Event
	n     int
}

// Len is the number of events.
func (l *Events) Len() int { return l.n }

// At is a pointer to the i-th event, valid as long as the list is.
func (l *Events) At(i int) *Event { return &l.pages[i>>pageShift][i&(pageSize-1)] }

// Append adds an event at the end.
func (l *Events) Append(e Event) {
	if l.n&(pageSize-1) == 0 && l.n>>pageShift == len(l.pages) {
		l.pages = append(l.pages, make([]Event, 0, pageSize))
	}
	p := &l.pages[l.n>>pageShift]
	*p = append(*p, e)
	l.n++
}

// All walks the list in order.
func (l *Events) All() iter.Seq2[int, *Event] {
	return func(yield func(int, *Event) bool) {
		i := 0
		for _, page := range l.pages {
			for j := range page {
				if !yield(i, &page[j]) {
					return
				}
				i++
			}
		}
	}
}

// Split cuts the list into consecutive parts of the given lengths, which together are at most as long.
// The parts take the list's memory over, with a page or two more; the list is empty afterwards.
func (l *Events) Split(lengths ...int) []Events {
	parts := make([]Events, len(lengths))
	if p := slices.Index(lengths, l.n); p >= 0 {
		parts[p], *l = *l, Events{}
		return parts
	}
	var spare [][]Event // pages whose events have all been moved on
	i := 0
	for p := range parts {
		part := &parts[p]
		for range lengths[p] {
			e := *l.At(i)
			if part.n&(pageSize-1) == 0 && len(spare) > 0 {
				part.pages = append(part.pages, spare[len(spare)-1][:0])
				spare = spare[:len(spare)-1]
			}
			part.Append(e)
			if i++; i&(pageSize-1) == 0 {
				spare = append(spare, l.pages[i>>pageShift-1])
				l.pages[i>>pageShift-1] = nil
			}
		}
	}
	*l = Events{}
	return parts
}

// EventsOf makes a list of the given events.
func EventsOf(events ...Event) Events {
	var l Events
	for _, e := range events {
		l.Append(e)
	}
	return l
}
