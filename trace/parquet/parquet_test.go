package parquet_test

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/vramscope/vramscope/trace/parquet"
	"github.com/vramscope/vramscope/trace/source"
)

func TestScratch(t *testing.T) {
	var files []string
	filepath.Walk("../../../shared/data", func(p string, st os.FileInfo, err error) error {
		if err == nil {
			files = append(files, p)
		}
		return nil
	})
	for _, f := range files {
		tr, err := source.Open(f, source.Options{})
		if err != nil {
			continue
		}
		var b bytes.Buffer
		now := time.Now()
		if err := parquet.Write(&b, tr); err != nil {
			t.Errorf("%s: %v", f, err)
		}
		st, _ := os.Stat(f)
		t.Logf("%s: %d -> %d %v", filepath.Base(f), st.Size(), b.Len(), time.Since(now))
		if filepath.Base(f) == "gpt_long.c0.pickle.zst" {
			os.WriteFile("/tmp/duck/long.parquet", b.Bytes(), 0o666)
		}
	}
}
