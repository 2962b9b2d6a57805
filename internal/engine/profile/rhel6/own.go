package rhel6

import (
	_ "embed"
	"fmt"
	"regexp"
	"strings"
	"sync"
)

// functionsText is the library that a generated script reads: our own helpers
// under the names that ktune.sh calls them by.
//
//go:embed functions.sh
var functionsText string

// supplied are the helpers in it.
var supplied = sync.OnceValue(func() []string { return suppliedNames(functionsText) })

func suppliedNames(text string) []string {
	var names []string
	for _, m := range regexp.MustCompile(`(?m)^([a-z][a-z0-9_]*)\(\)`).FindAllStringSubmatch(text, -1) {
		names = append(names, m[1])
	}
	return names
}

// ownScript is what the new profile's script.sh has to do.
type ownScript struct {
	line                         int
	functions                    []string
	prepare, start, stop, verify []string
	foreign                      []int // lines of text that is the profile's own
	whole                        bool  // no start(): what stands outside is all there is
}

func (s ownScript) needed() bool {
	return len(s.start)+len(s.stop) > 0 || s.whole && len(s.prepare) > 0
}

func (s ownScript) render(name string) string {
	shell := "/bin/sh"
	if len(s.foreign) > 0 {
		shell = "/bin/bash" // RHEL 6's sh was bash, and the text may need it
	}
	var w strings.Builder
	fmt.Fprintf(&w, "#!%s\n# What no plug-in does of the RHEL 6 profile %s's ktune.sh.\n\n", shell, name)
	fmt.Fprintf(&w, "# shellcheck disable=SC2034 # the functions use it\nPROFILE=%s\n# shellcheck source=functions.sh\n. \"$(dirname \"$0\")/functions.sh\"\n", name)
	for _, f := range s.functions {
		fmt.Fprintf(&w, "\n%s\n", f)
	}
	part := func(name, what string, commands []string) {
		fmt.Fprintf(&w, "\n# %s\n%s() {\n", what, name)
		for _, c := range commands {
			fmt.Fprintf(&w, "\t%s\n", c)
		}
		w.WriteString("\treturn 0\n}\n")
	}
	part("prepare", "before start and stop", s.prepare)
	part("start", "when the profile is put in force", s.start)
	part("stop", "when it is taken back", s.stop)
	part("verify", "compares; it changes nothing", s.verify)
	w.WriteString("\nprocess \"$@\"\n")
	return w.String()
}
