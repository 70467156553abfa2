package oom

import (
	"encoding/json"
	"io"
	"strconv"

	"github.com/vramscope/vramscope/trace/oomlog"
)

// schema names the layout of the JSON document. Fields are only ever added to it.
const schema = "vramscope/oom/v1"

type document struct {
	Schema   string        `json:"schema"`
	File     string        `json:"file"`
	Lines    int           `json:"lines"`
	Messages []messageJSON `json:"messages"`
	Omitted  int           `json:"omitted"`
	Notes    []noteJSON    `json:"notes"`
}

// messageJSON has null for every amount that the message does not give.
type messageJSON struct {
	Line                int          `json:"line"`
	Framework           string       `json:"framework"`
	Format              string       `json:"format"`
	Device              *int         `json:"device"`
	Requested           *json.Number `json:"requested_bytes"`
	Capacity            *json.Number `json:"capacity_bytes"`
	Allocated           *json.Number `json:"allocated_bytes"`
	Reserved            *json.Number `json:"reserved_bytes"`
	ReservedUnallocated *json.Number `json:"reserved_unallocated_bytes"`
	Free                *json.Number `json:"free_bytes"`
	Process             *json.Number `json:"process_bytes"`
	Limit               *json.Number `json:"limit_bytes"`
	PrivatePools        *json.Number `json:"private_pools_bytes"`
	Outside             *json.Number `json:"outside_bytes"`
	Elsewhere           *json.Number `json:"elsewhere_bytes"`
	LargestFree         *json.Number `json:"largest_free_bytes"`
	Plan                *json.Number `json:"plan_bytes"`
	Others              []otherJSON  `json:"others"`
	SelfPID             *int         `json:"self_pid"`
	Verdict             Verdict      `json:"verdict"`
	Headline            string       `json:"headline"`
	Why                 string       `json:"why"`
	Do                  []string     `json:"do"`
	Repeated            int          `json:"repeated"`
	Ranks               []int        `json:"ranks"`
	SnapshotAdds        *string      `json:"snapshot_adds"`
	Record              []string     `json:"record"`
	Text                string       `json:"text"`
}

type otherJSON struct {
	PID   int   `json:"pid"`
	Bytes int64 `json:"bytes"`
}

type noteJSON struct {
	Kind  string `json:"kind"`
	Line  int    `json:"line"`
	Count int    `json:"count"`
}

// noteKinds are the stable names of notes.
var noteKinds = map[oomlog.NoteKind]string{
	oomlog.NoteSoftBFC: "bfc-not-a-failure", oomlog.NoteCacheFlush: "cache-flush", oomlog.NoteSkippedPlan: "skipped-tactic",
	oomlog.NoteGrowth: "growth", oomlog.NoteTable: "device-table", oomlog.NoteSummary: "memory-summary",
}

func writeJSON(w io.Writer, name string, log *oomlog.Log, findings []Finding) error {
	d := document{Schema: schema, File: name, Lines: log.Lines, Omitted: log.Omitted, Messages: make([]messageJSON, 0, len(findings)), Notes: make([]noteJSON, 0, len(log.Notes))}
	for i := range findings {
		d.Messages = append(d.Messages, messageOf(&findings[i]))
	}
	for _, n := range log.Notes {
		d.Notes = append(d.Notes, noteJSON{noteKinds[n.Kind], n.Line, n.Count})
	}
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	return e.Encode(d)
}

func messageOf(f *Finding) messageJSON {
	m := &f.Message
	out := messageJSON{
		Line: m.Line, Framework: m.Framework, Format: m.Format,
		Requested: bytesOf(m.Requested), Capacity: bytesOf(m.Capacity), Allocated: bytesOf(m.Allocated), Reserved: bytesOf(m.Reserved),
		ReservedUnallocated: bytesOf(m.Unallocated), Free: bytesOf(m.Free), Process: bytesOf(m.Process), Limit: bytesOf(m.Limit),
		PrivatePools: bytesOf(m.PrivatePools), Outside: bytesOf(f.Judgement.Outside), Elsewhere: bytesOf(m.Elsewhere),
		LargestFree: bytesOf(m.LargestFree), Plan: bytesOf(m.Plan),
		Others: make([]otherJSON, 0, len(m.Others)), Verdict: f.Judgement.Verdict, Headline: f.Headline, Why: f.Why, Do: f.Do,
		Repeated: m.Repeated, Ranks: m.Ranks, Record: f.Record, Text: m.Text,
	}
	if m.Device >= 0 {
		out.Device = &m.Device
	}
	for _, o := range m.Others {
		out.Others = append(out.Others, otherJSON{o.PID, o.Size.Bytes})
	}
	if f.Judgement.SelfPID != 0 {
		out.SelfPID = &f.Judgement.SelfPID
	}
	if f.Adds != "" {
		out.SnapshotAdds = &f.Adds
	}
	if out.Ranks == nil {
		out.Ranks = []int{}
	}
	if out.Record == nil {
		out.Record = []string{}
	}
	return out
}

// bytesOf writes a size as a whole number, however large.
func bytesOf(s oomlog.Size) *json.Number {
	if !s.Known {
		return nil
	}
	n := json.Number(strconv.FormatInt(s.Bytes, 10))
	if s.Wide > 0 {
		n = json.Number(strconv.FormatUint(s.Wide, 10))
	}
	return &n
}
