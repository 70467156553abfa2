package simulate

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// ParseSize reads 12GiB, 12G, 500MiB, 1.5g or plain bytes. All units are binary.
func ParseSize(s string) (int64, error) {
	text := strings.TrimSpace(s)
	i := len(text)
	for i > 0 && (text[i-1] < '0' || text[i-1] > '9') && text[i-1] != '.' {
		i--
	}
	unit := strings.ToLower(strings.TrimSpace(text[i:]))
	shift, ok := map[string]uint{"": 0, "b": 0, "byte": 0, "bytes": 0,
		"k": 10, "kb": 10, "kib": 10, "m": 20, "mb": 20, "mib": 20,
		"g": 30, "gb": 30, "gib": 30, "t": 40, "tb": 40, "tib": 40}[unit]
	if !ok || i == 0 {
		return 0, fmt.Errorf("%q is not a size: write 12GiB, 500MiB or a number of bytes", s)
	}
	if n, err := strconv.ParseInt(text[:i], 10, 64); err == nil {
		if n < 0 || n > math.MaxInt64>>shift {
			return 0, fmt.Errorf("%q is too large or negative", s)
		}
		return n << shift, nil
	}
	x, err := strconv.ParseFloat(text[:i], 64)
	if err != nil || math.IsNaN(x) || x < 0 || x*float64(int64(1)<<shift) >= math.MaxInt64 {
		return 0, fmt.Errorf("%q is not a size: write 12GiB, 500MiB or a number of bytes", s)
	}
	return int64(math.Round(x * float64(int64(1)<<shift))), nil
}
