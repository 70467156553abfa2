package page

import (
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"fmt"
	"regexp"
	"strings"
)

//go:embed assets
var assets embed.FS

// modules are the page's programs in the order in which they need each other. Each is a module of its own, so that it
// can be read and tested alone; on the page they are one.
func modules() []string {
	return []string{
		"format", "unpack", "recording", "stacked", "view", "colours", "axis", "raster", "labels", "codes", "memory", "document",
		"timeline", "overview", "hover", "addressmap", "flame", "holders", "pins", "inspector", "uses", "samples", "search", "keys", "main",
	}
}

func asset(name string) string {
	text, err := assets.ReadFile("assets/" + name)
	if err != nil {
		panic(err) // unreachable: the file is part of the program, which a test sees to
	}
	return string(text)
}

var (
	imports = regexp.MustCompile(`(?m)^import [^;]*;\n`)
	exports = regexp.MustCompile(`(?m)^export `)
)

// script is the page's program: all modules in one.
func script() string {
	var out strings.Builder
	out.WriteString("\n")
	for _, m := range modules() {
		text := imports.ReplaceAllString(asset(m+".js"), "")
		out.WriteString(exports.ReplaceAllString(text, ""))
	}
	return out.String()
}

func style() string { return "\n" + asset("page.css") }

func markup() string { return asset("page.html") }

// policy is what the page allows itself: its own program and its own style, and nothing from anywhere.
func policy() string {
	hash := func(text string) string {
		sum := sha256.Sum256([]byte(text))
		return "'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
	}
	return fmt.Sprintf("default-src 'none'; script-src %s; style-src %s; img-src data:; base-uri 'none'; form-action 'none'",
		hash(script()), hash(style()))
}
