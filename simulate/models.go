package simulate

// Model is an allocator that requests can be replayed through.
type Model struct {
	Name string
	What string // one line
}

// Models lists them in the order in which they are shown.
func Models() []Model {
	return []Model{
		{"caching", "PyTorch's CUDACachingAllocator, with every setting (--conf)"},
	}
}

// HasModel says whether there is one of that name.
func HasModel(name string) bool {
	for _, m := range Models() {
		if m.Name == name {
			return true
		}
	}
	return false
}
