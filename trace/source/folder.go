package source

import (
	"os"
	"path/filepath"
	"strings"

	"github.com/vramscope/vramscope/trace"
	"github.com/vramscope/vramscope/trace/nsys"
	"github.com/vramscope/vramscope/trace/parquet"
	"github.com/vramscope/vramscope/trace/tables"
)

// folders are the kinds of folders of Parquet files.
var folders = [...]tableSource{
	{name: "Nsight Systems exports (--type parquetdir)", read: nsys.ReadFolder},
}

// readFolder reads a folder that is one export, or one recording of a data set. tell, if not nil, is told how far
// reading has come.
func readFolder(dir string, tell func(read, total int64)) (*trace.Trace, error) {
	if t, err := parquet.ReadDataSet(dir); err != trace.ErrUnrecognized {
		return t, err
	}
	f, err := tables.OpenFolder(dir)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	f.Watch(tell)
	for _, s := range folders {
		t, err := s.read(f)
		if err == trace.ErrUnrecognized {
			continue
		}
		if err == nil {
			t.Source.Bytes = f.Size()
			finished(tell, f.Size())
		}
		return t, err
	}
	var known []string
	for _, s := range folders {
		known = append(known, s.name)
	}
	known = append(known, "data sets of vramscope convert")
	what := "is a folder without Parquet tables; give a file in it (all of them: vramscope fleet), or a folder of"
	switch {
	case f.Len() > 0:
		what = "is a folder of Parquet files that are no tables of a profiler; readable are folders of"
	case has(dir, ".arrow"):
		return nil, nsys.NoArrow()
	}
	return nil, &trace.SyntaxError{Offset: -1, Msg: what + " " + strings.Join(known, " or of "), Err: trace.ErrUnrecognized}
}

// has says whether a folder has files with this ending.
func has(dir, ending string) bool {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return false
	}
	for _, e := range entries {
		if strings.EqualFold(filepath.Ext(e.Name()), ending) {
			return true
		}
	}
	return false
}
