package source

import (
	"io"
	"os"

	"github.com/vramscope/vramscope/trace"
	"github.com/vramscope/vramscope/trace/parquet"
	"github.com/vramscope/vramscope/trace/tables"
)

// isParquet says whether a file that begins so is a Parquet file. One that ends with its first word is nothing yet.
func isParquet(head []byte) bool { return len(head) > 4 && tables.IsParquet(head) }

// readParquet reads a Parquet file, which says at its end what it has: what comes out of a pipe or of a packed file
// is put into a temporary one first. path is where it is already, "" for nowhere.
func readParquet(r io.Reader, path string) (*trace.Trace, error) {
	path, done, err := onDisk(r, path)
	if err != nil {
		return nil, err
	}
	defer done()
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	return parquet.Read(f, info.Size())
}
