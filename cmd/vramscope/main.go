// Command vramscope reads recordings of GPU memory and says where it went and what would have made it fit.
package main

import (
	"os"
	"runtime/debug"

	"github.com/vramscope/vramscope/internal/cli"
)

// collect is how much garbage there may be beside what is in use, in percent. Traces have no pointers, so
// collecting is cheap, and a file is meant to be analysed in less memory than it takes on disk.
const collect = 5

func main() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(collect)
	}
	os.Exit(cli.Main(os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}
