package source

import (
	"bytes"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Inputs of every kind, cut, with bytes changed, and packed and then damaged, end in a result or in one line.
func TestMangledInputs(t *testing.T) {
	files, err := filepath.Glob("../../testdata/inputs/*")
	if err != nil || len(files) == 0 {
		t.Fatal("no test data")
	}
	random := rand.New(rand.NewPCG(1, 2))
	for _, file := range files {
		whole, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := Read(bytes.NewReader(whole), 0, Options{}); err != nil {
			t.Errorf("%s: %v", file, err)
		}
		for range 400 {
			data := bytes.Clone(whole)
			for range random.IntN(4) {
				data[random.IntN(len(data))] = byte(random.IntN(256))
			}
			if random.IntN(2) == 0 {
				data = data[:random.IntN(len(data))]
			}
			if random.IntN(3) == 0 {
				data = gz(t, data)
				if random.IntN(2) == 0 {
					data = data[:random.IntN(len(data))]
				}
			}
			if _, err := Read(bytes.NewReader(data), 0, Options{}); err != nil && strings.ContainsAny(err.Error(), "\n\r") {
				t.Fatalf("%s: not one line: %q", file, err)
			}
		}
	}
}

// A log of which the end is cut off while it is packed is used as far as it goes, and that is said.
func TestCutPackedInputs(t *testing.T) {
	for _, name := range []string{"kineto.json", "smi.csv", "tensorflow.log"} {
		whole, err := os.ReadFile("../../testdata/inputs/" + name)
		if err != nil {
			t.Fatal(err)
		}
		if name == "kineto.json" { // so long that what comes before the cut has events
			whole = bytes.Replace(whole, []byte(`"traceEvents": [`), append([]byte(`"traceEvents": [`), bytes.Repeat([]byte(`{"ph":"M"},`), 100)...), 1)
		}
		packed := gz(t, whole)
		tr, err := Read(bytes.NewReader(packed[:len(packed)-12]), 0, Options{})
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if !tr.Source.Cut {
			t.Errorf("%s: not said to be cut: %v", name, tr.Warnings)
		}
	}
}
