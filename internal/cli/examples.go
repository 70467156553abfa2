package cli

import (
	"strings"

	"github.com/spf13/cobra"
)

// examples are what people type, by the command that they type it for. Each line is a command, and after a # what it is
// for.
var examples = map[string]string{
	"vramscope": `
vramscope analyze run.pickle              # where did the memory go, why did it run out?
vramscope oom train.log                   # there is only the message
vramscope tune run.pickle                 # which settings need less?
vramscope report run.pickle -o run.html   # to look at it`,
	"vramscope info": `
vramscope info run.pickle
vramscope info logs/*.csv --json`,
	"vramscope analyze": `
vramscope analyze run.pickle
vramscope analyze run.pickle --at +2.5s                # who held what at that time
vramscope analyze run.pickle --nvml smi.csv            # what was outside the allocator?
vramscope analyze run.pickle --category 'kv cache=update_cache|paged_attention'
vramscope analyze run.pickle --format markdown --redact -o issue.md`,
	"vramscope report": `
vramscope report run.pickle -o run.html
vramscope report run.pickle -o run.png --plot timeline,map --at +2.5s
vramscope report run.pickle -o others.png --plot allocators --limit 24GiB`,
	"vramscope verify": `
vramscope verify run.pickle
vramscope verify run.pickle --limit 12GiB   # and would it have been refused where it was?`,
	"vramscope replay": `
vramscope replay run.pickle --conf "" --conf expandable_segments:True
vramscope replay run.pickle --memory 24GiB --edit scale=1.5     # half as large a batch again, on that card?
vramscope replay run.pickle --edit empty-cache:every=10steps
vramscope replay run.pickle --allocator all`,
	"vramscope fit": `
vramscope fit run.pickle
vramscope fit run.pickle --conf "" --conf expandable_segments:True`,
	"vramscope tune": `
vramscope tune run.pickle
vramscope tune run.pickle --memory 23.5GiB --torch 2.6`,
	"vramscope oom": `
vramscope oom train.log
python train.py 2>&1 | tee train.log | vramscope oom
vramscope oom logs.zst --exit-code --quiet && echo "no GPU ran out"`,
	"vramscope lint-conf": `
vramscope lint-conf "$PYTORCH_CUDA_ALLOC_CONF"
vramscope lint-conf --torch 2.6 'export PYTORCH_CUDA_ALLOC_CONF=max_split_size_mb:128'`,
	"vramscope diff": `
vramscope diff before.pickle after.pickle
vramscope diff before.pickle after.pickle --format markdown -o comment.md`,
	"vramscope check": `
vramscope check run.pickle --write-baseline memory.json    # once, and commit memory.json
vramscope check run.pickle --baseline memory.json --junit memory.xml
vramscope check run.pickle --max-peak-reserved-replayed 22GiB --max-ooms 0`,
	"vramscope convert": `
vramscope convert run.pickle -o run.pb.gz                  # go tool pprof run.pb.gz
vramscope convert run.pickle -o run.perfetto.json.gz       # https://ui.perfetto.dev
vramscope convert rank0.pickle -o runs/ --key run=first --key rank=0`,
	"vramscope fleet": `
vramscope fleet snapshots/
vramscope fleet 'run7/**/rank*.pickle' --html fleet.html
find run7 -name '*.pickle' | vramscope fleet - --no-tune --json -o fleet.json`,
	"vramscope fleet map": `
vramscope fleet map --shard 3/16 snapshots/ -o part-3.json`,
	"vramscope fleet merge": `
vramscope fleet merge part-*.json --html fleet.html
vramscope fleet merge part-*.json --tune`,
	"vramscope gpu info": `
vramscope gpu info`,
	"vramscope gpu replay": `
vramscope gpu replay run.pickle
vramscope gpu replay run.pickle --conf expandable_segments:True --memory 20GiB`,
	"vramscope gpu cost": `
vramscope gpu cost --memory 8GiB`,
	"vramscope record": `
vramscope record -o run.csv -- python train.py
vramscope analyze run.pickle --nvml run.csv`,
}

// addExamples gives each command its examples.
func addExamples(c *cobra.Command) {
	c.Example = strings.ReplaceAll(examples[c.CommandPath()], "\n", "\n  ")
	c.Example = strings.TrimPrefix(c.Example, "\n")
	for _, sub := range c.Commands() {
		addExamples(sub)
	}
}
