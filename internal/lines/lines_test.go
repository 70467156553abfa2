package lines

import (
	"bufio"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestReader(t *testing.T) {
	long := strings.Repeat("x", 40)
	for _, c := range []struct {
		text string
		want []string // number, start, line
		cut  bool
	}{
		{"", nil, false},
		{"a\n b \r\n\nc", []string{"1 0 a", "2 2  b ", "3 7 ", "4 8 c"}, true},
		{"\xef\xbb\xbfa\n", []string{"1 0 a"}, false},
		{"a\n" + long + "\nb\n", []string{"1 0 a", "2 2 \x00", "3 43 b"}, false},
		{long, []string{"1 0 \x00"}, true},
	} {
		r := New(bufio.NewReaderSize(strings.NewReader(c.text), 16))
		var got []string
		for {
			line, err := r.Next()
			if err == io.EOF {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, fmt.Sprintf("%d %d %s", r.Number, r.Start, line))
		}
		if diff := cmp.Diff(c.want, got); diff != "" || r.Cut != c.cut || r.Offset != int64(len(c.text)) {
			t.Errorf("%q: cut %v, %d bytes (-want +got):\n%s", c.text, r.Cut, r.Offset, diff)
		}
	}
}
