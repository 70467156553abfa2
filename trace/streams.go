package trace

import "slices"

// StreamSet numbers the handles of a device's streams as they come. The zero one is empty.
type StreamSet struct {
	ids     map[uint64]StreamID
	handles []uint64
}

// ID is the number of a handle, until Settle.
func (s *StreamSet) ID(handle uint64) StreamID {
	id, ok := s.ids[handle]
	if !ok {
		if s.ids == nil {
			s.ids = map[uint64]StreamID{}
		}
		id = StreamID(len(s.handles))
		s.ids[handle] = id
		s.handles = append(s.handles, handle)
	}
	return id
}

// Settle gives the device its streams, in ascending order of their handles, and its events their numbers.
func (s *StreamSet) Settle(d *Device) {
	d.Streams = slices.Sorted(slices.Values(s.handles))
	to := make([]StreamID, len(d.Streams))
	for i, h := range d.Streams {
		to[s.ids[h]] = StreamID(i)
	}
	if slices.IsSorted(to) {
		return
	}
	for _, e := range d.Events.All() {
		e.Stream = to[e.Stream]
	}
}
