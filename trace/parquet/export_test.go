package parquet

// The tests see how texts are escaped.
var (
	Escape   = escape
	Unescape = unescape
)
