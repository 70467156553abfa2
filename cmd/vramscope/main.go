// Command vramscope reads recordings of GPU memory and says where it went and what would have made it fit.
package main

import (
	"os"

	"github.com/vramscope/vramscope/internal/cli"
)

func main() { os.Exit(cli.Main(os.Args[1:], os.Stdin, os.Stdout, os.Stderr)) }
