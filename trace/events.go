package trace

import "iter"

const (
	pageShift = 13
	pageSize  = 1 << pageShift // events; 320 KiB a page

	// PageEvents is how many events a page has: Release gives memory back in such steps.
	PageEvents = pageSize
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

// Release gives up the pages that lie wholly before event i: those events must not be used any more.
func (l *Events) Release(i int) {
	for p := 0; p < i>>pageShift && p < len(l.pages); p++ {
		l.pages[p] = nil
	}
}

// EventsOf makes a list of the given events.
func EventsOf(events ...Event) Events {
	var l Events
	for _, e := range events {
		l.Append(e)
	}
	return l
}
