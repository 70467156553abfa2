package config

import (
	"fmt"
	"strconv"
	"strings"
)

// Version is a release of PyTorch. The zero value stands for DefaultVersion.
type Version struct{ Major, Minor int }

var (
	// DefaultVersion is assumed when nobody says which version it is.
	DefaultVersion = Version{2, 11}
	// Latest is the newest version whose rules are known here.
	Latest = Version{2, 14}
)

// ParseVersion reads a version as torch.__version__ prints it: 2.11, 2.11.0, 2.11.0+cu130, 2.12.0a0+git1234.
func ParseVersion(s string) (Version, error) {
	major, rest, ok := strings.Cut(strings.TrimPrefix(strings.TrimSpace(s), "v"), ".")
	end := 0
	for end < len(rest) && '0' <= rest[end] && rest[end] <= '9' {
		end++
	}
	a, err1 := strconv.Atoi(major)
	b, err2 := strconv.Atoi(rest[:end])
	if !ok || err1 != nil || err2 != nil || a < 0 || a > 1000 || b > 1000 {
		return Version{}, fmt.Errorf("%q is not a version of PyTorch: write it as 2.11", s)
	}
	return Version{a, b}, nil
}

func (v Version) String() string {
	v = v.known()
	return fmt.Sprintf("%d.%d", v.Major, v.Minor)
}

// known replaces the zero value.
func (v Version) known() Version {
	if v == (Version{}) {
		return DefaultVersion
	}
	return v
}

// before says whether v is older than w.
func (v Version) before(w Version) bool {
	v = v.known()
	return v.Major < w.Major || v.Major == w.Major && v.Minor < w.Minor
}
