package oomlog

import "bytes"

// ranksOf reads the rank from what a launcher puts before a message on its line: "[rank3]:", "rank=3",
// "(Worker_TP3 pid=17)", "[default3]:", "[1,3]<stderr>:", "3: ".
func ranksOf(before []byte) []int {
	line := before[bytes.LastIndexByte(before, '\n')+1:]
	line = stripEscapes(line)
	for i := 0; i+4 < len(line); i++ {
		for _, word := range [...]string{"rank", "worker_tp", "[default"} {
			if !hasPrefixFold(line[i:], word) {
				continue
			}
			p := i + len(word)
			for p < len(line) && (line[p] == ' ' || line[p] == '=' || line[p] == ':' || line[p] == '_') {
				p++
			}
			if n := digitsLen(line[p:]); n > 0 && n < 6 {
				return []int{atoi(line[p : p+n])}
			}
		}
	}
	if bytes.HasPrefix(line, []byte("[1,")) { // mpirun -tag-output
		if n := digitsLen(line[3:]); n > 0 && n < 6 {
			return []int{atoi(line[3 : 3+n])}
		}
	}
	if n := digitsLen(line); n > 0 && n < 5 && bytes.HasPrefix(line[n:], []byte(": ")) { // srun --label
		return []int{atoi(line[:n])}
	}
	return nil
}
