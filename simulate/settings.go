package simulate

import (
	"github.com/vramscope/vramscope/allocators/caching/config"
	"github.com/vramscope/vramscope/trace"
)

// SettingsOf resolves the settings that a trace was recorded under, with findings about them.
func SettingsOf(t *trace.Trace, v config.Version) (config.Config, []config.Finding) {
	s := t.Settings
	return config.FromSnapshot(config.Snapshot{
		Text:            s.Conf,
		MaxSplitSize:    s.MaxSplitSize,
		HasMaxSplitSize: s.Known,
		GCThreshold:     s.GCThreshold,
		HasGCThreshold:  s.Known,
		Expandable:      s.Expandable,
		HasExpandable:   s.HasExpandable,
		Roundup:         s.Roundup,
		HasRoundup:      s.HasRoundup,
	}, v)
}
