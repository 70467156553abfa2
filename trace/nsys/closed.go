package nsys

import (
	"bufio"
	"bytes"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/vramscope/vramscope/trace"
)

// What Nsight Systems also writes, and what cannot be read here: containers that only it knows, and exports
// that it writes in other forms as well. The answer is the command for one of those.

// refused is a file of a known kind that is not read.
func refused(format string, args ...any) error {
	return &trace.SyntaxError{Offset: -1, Msg: fmt.Sprintf(format, args...), Err: trace.ErrUnrecognized}
}

const otherExports = "make another with " + exportCommand + " (or nsys export --type parquetdir -o run_parquetdir run.nsys-rep, and give the folder)"

// NoArrow is the answer to an export to Arrow.
func NoArrow() error { return refused("is an export of Nsight Systems to Arrow; %s", otherExports) }

// ReadClosed answers files that cannot be read here. It returns trace.ErrUnrecognized itself for all others.
func ReadClosed(in *bufio.Reader) (*trace.Trace, error) {
	head, _ := in.Peek(in.Size())
	switch {
	case bytes.HasPrefix(head, []byte("ARROW1")), isArrowStream(head):
		return nil, NoArrow()
	case bytes.HasPrefix(head, []byte("\x89HDF\r\n\x1a\n")):
		return nil, refused("is an HDF5 file; if it is an export of Nsight Systems, %s", otherExports)
	case bytes.HasPrefix(head, []byte("PAR1")):
		return nil, refused("is one table of Parquet; give the folder that it is in, if that is an export of Nsight Systems")
	}
	return nil, trace.ErrUnrecognized
}

// isArrowStream says whether a file begins like a stream of Arrow's messages: a marker, the length of the
// first message, and in it the schema.
func isArrowStream(head []byte) bool {
	return len(head) > 64 && bytes.HasPrefix(head, []byte("\xff\xff\xff\xff")) && head[6] == 0 && head[7] == 0 &&
		bytes.Contains(head[:min(len(head), 4096)], []byte("table_name"))
}

// ClosedByName answers the containers that only Nsight Systems can open, whose contents have no mark to know
// them by. It is for files that nothing else recognised. The command is the one for this file.
func ClosedByName(path string) error {
	ext := filepath.Ext(path)
	stem := strings.TrimSuffix(path, ext)
	export := func(from string) string {
		return fmt.Sprintf("nsys export --type sqlite -o %s %s", quoted(stem+".sqlite"), quoted(from))
	}
	switch strings.ToLower(ext) {
	case ".nsys-rep", ".qdrep":
		return refused("is a report of Nsight Systems, which only itself can open: %s", export(path))
	case ".qdstrm":
		return refused("is an unfinished recording of Nsight Systems: QdstrmImporter %s makes a report of it, and then %s", quoted(path), export(stem+".nsys-rep"))
	}
	return nil
}

// quoted is a path as a shell takes it for one word.
func quoted(path string) string {
	plain := func(c rune) bool {
		return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.ContainsRune("/._-+=:@%,", c) || c >= 0x80
	}
	if path != "" && strings.IndexFunc(path, func(c rune) bool { return !plain(c) }) < 0 {
		return path
	}
	return "'" + strings.ReplaceAll(path, "'", `'\''`) + "'"
}
