package nvml

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"unicode/utf16"

	"github.com/vramscope/vramscope/trace"
)

func read(data []byte) (*trace.Trace, error) {
	return Read(bufio.NewReaderSize(bytes.NewReader(data), 64<<10))
}

// describe puts into words what was read.
func describe(t *trace.Trace) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s; ", t.Source.Clock)
	for i, d := range t.Devices {
		if i > 0 {
			b.WriteString("\n")
		}
		fmt.Fprintf(&b, "%d %s %d: ", d.Index, d.Name, d.Capacity>>20)
		for j, s := range d.Series {
			if j > 0 {
				b.WriteString(", ")
			}
			shift := 20
			if s.Quantity.Unit() != "bytes" {
				shift = 0
			}
			fmt.Fprintf(&b, "%s ", s.Quantity)
			if s.PID != 0 {
				fmt.Fprintf(&b, "%d ", s.PID)
			}
			if s.Name != "" {
				fmt.Fprintf(&b, "%s ", s.Name)
			}
			fmt.Fprintf(&b, "%d %d..%d %d", s.Samples, s.Min>>shift, s.Max>>shift, s.Last()>>shift)
		}
	}
	var codes []string
	for _, w := range t.Warnings {
		codes = append(codes, w.Code)
	}
	if len(codes) > 0 {
		fmt.Fprintf(&b, "\n%s", strings.Join(codes, " "))
	}
	return b.String()
}

func TestForms(t *testing.T) {
	for _, f := range forms {
		tr, err := read([]byte(f.text))
		if err != nil {
			t.Errorf("%s: %v", f.name, err)
			continue
		}
		if got := describe(tr); got != f.want {
			t.Errorf("%s:\ngot  %s\nwant %s", f.name, got, f.want)
		}
		if all := fmt.Sprintf("%+v", tr); strings.Contains(all, "somebody") {
			t.Errorf("%s: a name of a person or a host came through: %.300s", f.name, all)
		}
	}
}

// The same in what PowerShell writes, with the line ends of Windows, and behind a shell's prompt.
func TestEncodings(t *testing.T) {
	for _, f := range forms {
		want, err := read([]byte(f.text))
		if err != nil {
			t.Fatal(err)
		}
		windows := strings.ReplaceAll(f.text, "\n", "\r\n")
		for name, data := range map[string][]byte{
			"CRLF": []byte(windows), "UTF-16LE": utf16Bytes(windows, false), "UTF-16BE": utf16Bytes(windows, true), "BOM": []byte("\xef\xbb\xbf" + f.text),
		} {
			tr, err := read(data)
			if strings.HasPrefix(name, "UTF-16") && (f.text[0] == '{' || strings.HasPrefix(f.name, "nvitop")) {
				continue // written by programs, not by a redirection
			}
			if err != nil {
				t.Errorf("%s, %s: %v", f.name, name, err)
				continue
			}
			if got, want := describe(tr), describe(want); got != want {
				t.Errorf("%s, %s:\ngot  %s\nwant %s", f.name, name, got, want)
			}
		}
	}
}

func utf16Bytes(s string, big bool) []byte {
	var out []byte
	for _, u := range append([]uint16{0xfeff}, utf16.Encode([]rune(s))...) {
		if big {
			out = append(out, byte(u>>8), byte(u))
		} else {
			out = append(out, byte(u), byte(u>>8))
		}
	}
	return out
}

// However a log is cut, no reading comes out that is not in it.
func TestCut(t *testing.T) {
	for _, f := range forms {
		whole, err := read([]byte(f.text))
		if err != nil {
			t.Fatal(err)
		}
		known := map[string]trace.Series{}
		for _, d := range whole.Devices {
			for _, s := range d.Series {
				known[fmt.Sprint(d.Index, s.Quantity, s.PID, s.Name)] = s
			}
		}
		for n := 1; n < len(f.text); n++ {
			tr, err := read([]byte(f.text[:n]))
			if err != nil {
				if strings.Contains(err.Error(), "\n") {
					t.Fatalf("%s cut to %d: %q", f.name, n, err)
				}
				continue
			}
			if strings.Contains(f.name, "without a header") || strings.Contains(f.name, "by position") {
				continue // fewer rows are another guess
			}
			for _, d := range tr.Devices {
				for _, s := range d.Series {
					k, ok := known[fmt.Sprint(d.Index, s.Quantity, s.PID, s.Name)]
					if ok && k.Samples >= s.Samples && k.Min <= s.Min && k.Max >= s.Max {
						continue
					}
					if !ok && s.Quantity == trace.ProcessUsed && s.Name == "" {
						continue
					}
					t.Fatalf("%s cut to %d, %q: device %d %s %d %q %d..%d is not in the whole", f.name, n, tail(f.text[:n]), d.Index, s.Quantity, s.PID, s.Name, s.Min, s.Max)
				}
			}
		}
	}
}

func tail(s string) string { return s[max(0, len(s)-40):] }

func TestBad(t *testing.T) {
	for name, c := range map[string]struct {
		text string
		err  error
		want string
	}{
		"no driver":        {"NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. Make sure that the latest NVIDIA driver is installed and running.\n", trace.ErrCorrupt, "gave no readings"},
		"no such field":    {"Field \"memory.sued\" is not a valid field to query.\n", trace.ErrCorrupt, "memory.sued"},
		"no devices":       {"No devices were found\n", trace.ErrCorrupt, "No devices"},
		"only a header":    {"timestamp, memory.used [MiB]\n", trace.ErrCorrupt, "without any readings"},
		"numbers":          {"1, 2\n3, 4\n", trace.ErrUnrecognized, ""},
		"a log":            {"epoch 1, loss 0.5, memory 12 MB\n", trace.ErrUnrecognized, ""},
		"another CSV":      {"name,index,value\na,1,2\n", trace.ErrUnrecognized, ""},
		"another metric":   {"# HELP go_goroutines x\n# TYPE go_goroutines gauge\ngo_goroutines 7\n", trace.ErrUnrecognized, ""},
		"Prometheus fails": {`{"status":"error","errorType":"bad_data","error":"parse error","data":{"resultType":""}}`, trace.ErrCorrupt, "an error"},
		"other metrics":    {`{"status":"success","data":{"resultType":"vector","result":[{"metric":{"__name__":"up"},"value":[1,"1"]}]}}`, trace.ErrCorrupt, "no metric of memory"},
		"buffers":          {"load: CUDA0 buffer, 512 MiB, 3 layers\nload: CUDA1 buffer, 512 MiB, 3 layers\n", trace.ErrUnrecognized, ""},
		"RMM":              {"Thread,Time,Action,Pointer,Size,Stream\n1,10:00:00.000001,allocate,0x7f,256,0\n", trace.ErrUnrecognized, ""},
		"nothing":          {"\n", trace.ErrUnrecognized, ""},
	} {
		tr, err := read([]byte(c.text))
		if !errors.Is(err, c.err) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, %v", name, err, tr)
		}
	}
}

// The clock of the wall is set back in autumn.
func TestSummerTime(t *testing.T) {
	tr, err := read([]byte("timestamp, index, memory.used [MiB]\n" +
		"2026/10/25 02:59:59.000, 0, 1 MiB\n2026/10/25 02:00:00.000, 0, 2 MiB\n2026/10/25 02:30:00.000, 0, 3 MiB\n"))
	if err != nil {
		t.Fatal(err)
	}
	first, last := tr.Devices[0].Series[0].Span()
	if last-first != 1801*second || len(tr.Warnings) != 1 || tr.Warnings[0].Code != "clock-set-back" {
		t.Errorf("%d s, %v", (last-first)/second, tr.Warnings)
	}
}

func corpus(t *testing.T, name string) []byte {
	dir := os.Getenv("VRAMSCOPE_CORPUS")
	if dir == "" {
		dir = filepath.Join("..", "..", "..", "shared", "data")
	}
	data, err := os.ReadFile(filepath.Join(dir, "nvml", name))
	if err != nil {
		t.Skip("there is no corpus: set VRAMSCOPE_CORPUS")
	}
	return data
}

// Real logs: rows and extremes as awk counts them, and no warning.
func TestRecorded(t *testing.T) {
	for name, want := range map[string]string{
		"smi.csv":   "local; 0 NVIDIA H200 143771: device_used 458 0..58991 0, device_free 458 84166..143156 143156, device_total 458 143771..143771 143771, busy 458 0..100 0",
		"dmon.txt":  "local; 0  0: device_used 228 0..58439 5911, bar1_used 228 1..58440 5912, busy 228 0..100 0",
		"smi_q.txt": "local; 0 NVIDIA H200 143771: device_total 1 143771..143771 143771, driver_reserved 1 616..616 616, device_used 1 0..0 0, device_free 1 143156..143156 143156, bar1_used 1 1..1 1, busy 1 15..15 15",
	} {
		tr, err := read(corpus(t, name))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if got := describe(tr); got != want {
			t.Errorf("%s:\ngot  %s\nwant %s", name, got, want)
		}
	}
	tr, err := read(corpus(t, "pmon.txt"))
	if err != nil || len(tr.Warnings) != 0 || len(tr.Devices) != 1 {
		t.Fatalf("%v %v", err, tr.Warnings)
	}
	samples := 0
	var most int64
	for _, s := range tr.Devices[0].Series {
		samples += s.Samples
		most = max(most, s.Max)
	}
	if got, want := fmt.Sprint(len(tr.Devices[0].Series), samples, most>>20), pmonWant; got != want {
		t.Errorf("pmon: %s, want %s", got, want)
	}
}

// pmonWant is the number of processes, that of their readings, and the most that one had in MiB.
const pmonWant = "136 830 30092"

// A long log takes no more memory than a short one.
func TestMemory(t *testing.T) {
	if testing.Short() {
		t.Skip("slow, skipped under -short")
	}
	const rows = 400_000
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		b := bufio.NewWriter(w)
		b.WriteString("timestamp, index, memory.used [MiB], memory.free [MiB], memory.total [MiB]\n")
		for i := range rows {
			n := i * 7919 % 80000
			fmt.Fprintf(b, "2026/11/%02d %02d:%02d:%02d.%03d, %d, %d MiB, %d MiB, 81559 MiB\n", 1+i/86400%28, i/3600%24, i/60%60, i%60, i%8, i%8, n, 81559-n)
		}
		b.Flush()
		w.Close()
	}()
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	tr, err := Read(bufio.NewReaderSize(r, 64<<10))
	if err != nil {
		t.Fatal(err)
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	d := &tr.Devices[7]
	if len(tr.Devices) != 8 || d.Series[0].Samples != rows/8 || d.Series[0].Coarse() < 2 {
		t.Errorf("%d devices, %d samples", len(tr.Devices), d.Series[0].Samples)
	}
	if grew := int64(after.HeapAlloc) - int64(before.HeapAlloc); grew > 12<<20 {
		t.Errorf("took %d MB", grew>>20)
	}
	runtime.KeepAlive(tr)
}

func BenchmarkRead(b *testing.B) {
	var text bytes.Buffer
	text.WriteString("timestamp, index, memory.used [MiB], memory.free [MiB], memory.total [MiB], utilization.gpu [%]\n")
	for i := range 100_000 {
		fmt.Fprintf(&text, "2026/11/29 %02d:%02d:%02d.%03d, %d, %d MiB, %d MiB, 81559 MiB, %d %%\n", i/3600%24, i/60%60, i%60, i%8, i%8, i%80000, 81559-i%80000, i%100)
	}
	b.SetBytes(int64(text.Len()))
	for b.Loop() {
		if _, err := read(text.Bytes()); err != nil {
			b.Fatal(err)
		}
	}
}

func FuzzRead(f *testing.F) {
	for _, c := range forms {
		f.Add([]byte(c.text))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		tr, err := read(data)
		if err != nil {
			if strings.ContainsAny(err.Error(), "\n\r") {
				t.Errorf("not one line: %q", err)
			}
			return
		}
		for _, d := range tr.Devices {
			for _, s := range d.Series {
				if s.Samples == 0 || s.Min > s.Max || s.Min < 0 || len(s.Points) == 0 {
					t.Errorf("%+v", s)
				}
			}
		}
	})
}
