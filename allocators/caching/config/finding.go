package config

import "fmt"

// Severity says how much a finding matters.
type Severity string

const (
	Error      Severity = "error"      // PyTorch raises, nothing of the setting holds
	Ignored    Severity = "ignored"    // PyTorch does not look at this part
	NoEffect   Severity = "no-effect"  // it is set and changes nothing
	Risk       Severity = "risk"       // it works and is known to hurt or to break something
	Deprecated Severity = "deprecated" // it works, and a newer way is asked for
)

// Finding is something to know about one part of a setting.
type Finding struct {
	Code     string // stable name of the rule, for programs
	Key      string // the key concerned, if any
	Severity Severity
	Message  string // for people
	Offset   int    // byte of the text; -1 for a value that is in force without being in the text
	Suggest  string // what to write in its place, if something is better
}

// SyntaxError is a part of a setting that PyTorch raises on.
type SyntaxError struct {
	Code   string // stable name of the rule, for programs
	Offset int    // byte of the text where the trouble is
	Key    string // the key concerned, if any
	Msg    string // what is wrong
	Do     string // what to do about it
	Write  string // what to write in its place, if that is known
}

func (e *SyntaxError) Error() string {
	return fmt.Sprintf("offset %d: %s; %s", e.Offset, e.Msg, e.Do)
}

func (e *SyntaxError) finding() Finding {
	return Finding{Code: e.Code, Key: e.Key, Severity: Error, Message: e.Msg + "; " + e.Do, Offset: e.Offset, Suggest: e.Write}
}
