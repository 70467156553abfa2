// Package lint holds the project's own rules as a test, so that there is one way to run them (go test)
// and a rule cannot be forgotten on one machine and kept on another. It has no code besides its tests:
//
//   - imports_test.go: which package may import which, and which libraries where;
//   - source_test.go: length of files, formatting, init functions, panics, exits, package names;
//   - words_test.go: what no tracked text may say, how large a tracked file may be, the top folders;
//   - tools_test.go: go vet and staticcheck.
//
// Each rule is a function from one file to the things that are wrong with it, and is itself tested on a
// few lines that break it: a rule that never fires looks the same as a clean tree.
package lint
