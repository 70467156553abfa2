package cli

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"
	"github.com/vramscope/vramscope/report"
)

func newInfo(e *env) *cobra.Command {
	var out output
	c := &cobra.Command{
		Use:   "info FILE...",
		Short: "What a file is: format, producer, devices, events, span, what is missing",
		Args:  someFiles,
		RunE: func(c *cobra.Command, args []string) error {
			if err := out.check(args...); err != nil {
				return err
			}
			var infos []report.Info
			var failed error
			for _, file := range args {
				t, err := e.open(file)
				if err != nil {
					if failed != nil {
						fmt.Fprintf(e.stderr, "vramscope: %s\n", oneLine(failed.Error()))
					}
					failed = err
					continue
				}
				infos = append(infos, report.Inform(e.label(file), t))
			}
			if len(infos) > 0 {
				err := out.write(e.stdout, func(w io.Writer) error {
					if out.format == "json" {
						return report.WriteInfoJSON(w, infos)
					}
					return report.WriteInfoText(w, infos, out.style(e.stdout))
				})
				if err != nil {
					return err
				}
			}
			return failed
		},
	}
	out.flags(c)
	return c
}
