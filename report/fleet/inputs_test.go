package fleet_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/vramscope/vramscope/report/fleet"
)

// lay makes files, and links of the form NAME > TARGET.
func lay(t *testing.T, names ...string) string {
	t.Helper()
	dir := t.TempDir()
	for _, name := range names {
		name, to, link := strings.Cut(name, " > ")
		at := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(at), 0o777); err != nil {
			t.Fatal(err)
		}
		var err error
		if link {
			err = os.Symlink(to, at)
		} else {
			err = os.WriteFile(at, []byte("x"), 0o666)
		}
		if err != nil {
			t.Skip(err) // no links, or no such names, on this file system
		}
	}
	return dir
}

func TestExpand(t *testing.T) {
	for _, c := range []struct {
		title string
		lay   []string
		args  string
		stdin string
		own   string
		want  string
	}{
		{"a link to a folder is what it leads to", []string{"run5/rank0", "latest > run5"}, "latest", "", "", "latest/rank0"},
		{"globs too", []string{"run5/a/rank0", "latest > run5"}, "latest/**", "", "", "latest/a/rank0"},
		{"links within a folder are followed", []string{"all/0 > ../store/x", "all/1 > ../store/y", "store/x/snap", "store/y/snap"}, "all", "", "", "all/0/snap all/1/snap"},
		{"a file counts once, by its own name", []string{"all/rank0", "all/a > rank0", "all/z > rank0"}, "all", "", "", "all/rank0"},
		{"so does a folder", []string{"all/run5/rank0", "all/latest > run5"}, "all", "", "", "all/run5/rank0"},
		{"the name that was given counts", []string{"all/rank0", "all/a > rank0"}, "all all/a", "", "", "all/a"},
		{"the order of names does not matter", []string{"rank0", "a > rank0"}, "a rank0", "", "", "rank0"},
		{"a circle ends", []string{"all/rank0", "all/up > ..", "all/self > ."}, "all", "", "", "all/rank0"},
		{"a link to nothing is a file that cannot be read", []string{"all/rank0", "all/rank1 > gone"}, "all", "", "", "all/rank0 all/rank1"},
		{"an export in tables is one", []string{"all/x/TARGET_INFO_SESSION_START_TIME.parquet", "all/x/t.parquet", "all/a"}, "all all/** all/*", "", "", "all/a all/x"},
		{"for globs that go into folders as well", []string{"all/x/TARGET_INFO_SESSION_START_TIME.parquet", "all/x/t.parquet", "all/a"}, "all/**", "", "", "all/a all/x"},
		{"full names and short ones are the same", []string{"rank0"}, "rank0 ./rank0 $PWD/rank0", "", "", "rank0"},
		{"hidden files are left out", []string{"all/rank0", "all/.out.journal", "all/.d/rank1"}, "all", "", "", "all/rank0"},
		{"by globs", []string{"all/rank0", "all/.out.journal", "all/.d/rank1"}, "all/* all/**", "", "", "all/rank0"},
		{"unless they are asked for", []string{"all/rank0", "all/.d/rank1"}, "all/.*/*", "", "", "all/.d/rank1"},
		{"what the run writes is not read where it lies in a folder", []string{"all/rank0", "all/out", "all/q/x"}, "all", "", "all/out all/q", "all/rank0"},
		{"unless it is named", []string{"all/rank0", "all/out"}, "all/out", "", "all/out", "all/out"},
		{"lists of Windows", []string{"rank0", "rank1"}, "-", "\ufeffrank0\r\n\r\n \r\nrank1\r\n", "", "rank0 rank1"},
		{"lists with zero bytes, for names with newlines", []string{"a\nb", "c"}, "-", "a\nb\x00c\x00", "", "a\nb c"},
		{"names that are no text", []string{"rank0\xff", "rank0\xfe", "rank0é"}, ".", "", "", `rank0\xfe rank0\xff rank0é`},
	} {
		t.Run(c.title, func(t *testing.T) {
			dir := lay(t, c.lay...)
			t.Chdir(dir)
			var args []string
			for _, a := range strings.Fields(c.args) {
				args = append(args, strings.Replace(a, "$PWD", dir, 1))
			}
			inputs, err := fleet.Expand(args, strings.NewReader(c.stdin), strings.Fields(c.own)...)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, in := range inputs {
				got = append(got, in.File)
				if _, err := os.Lstat(fleet.OnDisk(in.File)); err != nil {
					t.Error(err)
				}
			}
			if want := strings.Split(c.want, " "); !slices.Equal(got, want) {
				t.Errorf("%q, want %q", got, want)
			}
		})
	}
}

func TestExpandRefuses(t *testing.T) {
	for _, stdin := range []string{"\x80\x04\x95\x00\x00}\x94", "a\x1bb", strings.Repeat("x", 5000)} {
		if _, err := fleet.Expand([]string{"-"}, strings.NewReader(stdin)); err == nil {
			t.Errorf("%.20q is taken for a list", stdin)
		}
	}
}
