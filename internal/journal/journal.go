// Package journal keeps the results of long work in a file as they come, so that the work can be ended at any moment,
// by whatever, and go on from there.
//
// A record is a line: a checksum, a key and a value. Lines are only ever added, each in one write, so that what was
// there before stays whole. A line that was cut, or that something else got into, has a wrong checksum and is
// passed over: its work is done again.
package journal

import (
	"bufio"
	"bytes"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"strconv"
	"sync"
	"time"
)

// Journal is such a file. Its methods can be called at the same time.
type Journal struct {
	mu     sync.Mutex
	path   string
	file   *os.File // nil until something is written
	at     map[string]span
	size   int64
	torn   bool // the file ends in the middle of a line
	synced time.Time
	// quiet is how long after opening no file is made. Work that is done sooner leaves no trace.
	quiet   time.Duration
	opened  time.Time
	waiting [][]byte
}

// span is where a record is, without the newline.
type span struct {
	from int64
	n    int
}

// Open opens a journal, which need not be there yet; in that case its file is made no sooner than after a while.
func Open(path string, quiet time.Duration) (*Journal, error) {
	j := &Journal{path: path, at: map[string]span{}, quiet: quiet, opened: time.Now()}
	f, err := os.Open(path)
	if os.IsNotExist(err) {
		return j, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if st, err := f.Stat(); err == nil && !st.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is no regular file", path)
	}
	j.quiet = 0
	return j, j.scan(f)
}

// scan finds the whole records.
func (j *Journal) scan(r io.Reader) error {
	br := bufio.NewReaderSize(r, 1<<20)
	for {
		line, err := br.ReadBytes('\n')
		if err != nil && err != io.EOF {
			return err
		}
		record := bytes.TrimSuffix(line, []byte("\n"))
		if key, _, ok := parse(record); ok {
			j.at[key] = span{j.size, len(record)}
		}
		j.size += int64(len(line))
		j.torn = len(line) > 0 && len(record) == len(line)
		if err == io.EOF {
			return nil
		}
	}
}

// parse takes a record apart: eight digits, a space, the key, a space, the value.
func parse(line []byte) (key string, value []byte, ok bool) {
	if len(line) < 10 || line[8] != ' ' {
		return "", nil, false
	}
	sum, err := strconv.ParseUint(string(line[:8]), 16, 32)
	if err != nil || uint32(sum) != crc32.ChecksumIEEE(line[9:]) {
		return "", nil, false
	}
	k, v, ok := bytes.Cut(line[9:], []byte(" "))
	return string(k), v, ok
}

// Len is how many records there are.
func (j *Journal) Len() int {
	j.mu.Lock()
	defer j.mu.Unlock()
	return len(j.at)
}

// Get reads the value of a key, nil if there is none.
func (j *Journal) Get(key string) []byte {
	j.mu.Lock()
	defer j.mu.Unlock()
	s, ok := j.at[key]
	if !ok {
		return nil
	}
	f, err := os.Open(j.path)
	if err != nil {
		return nil
	}
	defer f.Close()
	record := make([]byte, s.n)
	if _, err := f.ReadAt(record, s.from); err != nil {
		return nil
	}
	// Where somebody else adds records to the same file, those added here are not where they are thought to be.
	have, value, ok := parse(record)
	if !ok || have != key {
		return nil
	}
	return value
}

// Put adds a record. Neither key nor value may have a newline, nor the key a space.
func (j *Journal) Put(key string, value []byte) error {
	body := append(append([]byte(key), ' '), value...)
	if bytes.IndexByte(body, '\n') >= 0 || bytes.IndexByte([]byte(key), ' ') >= 0 {
		return fmt.Errorf("the record %q cannot be kept: it has newlines", key)
	}
	line := append(fmt.Appendf(nil, "%08x ", crc32.ChecksumIEEE(body)), body...)
	line = append(line, '\n')
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.file == nil && time.Since(j.opened) < j.quiet {
		j.waiting = append(j.waiting, line)
		return nil
	}
	if j.file == nil {
		f, err := os.OpenFile(j.path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o666)
		if err != nil {
			return err
		}
		j.file = f
		if j.torn {
			j.waiting = append([][]byte{[]byte("\n")}, j.waiting...)
		}
	}
	for _, l := range append(j.waiting, line) {
		if err := j.append(l); err != nil {
			return err
		}
	}
	j.waiting = nil
	if time.Since(j.synced) > time.Second {
		j.synced = time.Now()
		return j.file.Sync()
	}
	return nil
}

func (j *Journal) append(line []byte) error {
	n, err := j.file.Write(line)
	if err != nil {
		j.size += int64(n)
		return err
	}
	if key, _, ok := parse(line[:len(line)-1]); ok {
		j.at[key] = span{j.size, len(line) - 1}
	}
	j.size += int64(n)
	return nil
}

// Close ends the writing.
func (j *Journal) Close() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.file == nil {
		return nil
	}
	err := j.file.Sync()
	if e := j.file.Close(); err == nil {
		err = e
	}
	j.file = nil
	return err
}

// Remove takes the file away, if there is one.
func (j *Journal) Remove() error {
	if err := j.Close(); err != nil {
		return err
	}
	if err := os.Remove(j.path); err != nil && !os.IsNotExist(err) {
		return err
	}
	return nil
}
