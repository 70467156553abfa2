//go:build !linux && !darwin && !freebsd && !netbsd && !openbsd

package cli

import "os"

// columnsOf is how many columns a terminal has: here nobody knows. What is written to as it comes is taken for one.
func columnsOf(f *os.File) (columns int, ok bool) {
	st, err := f.Stat()
	return 0, err == nil && st.Mode()&os.ModeCharDevice != 0
}
