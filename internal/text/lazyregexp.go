// lazyregexp compiles a regular expression when it is first used.
// Compiling all of those that fettle has takes longer than most of its verbs,
// which use none or a few.

package text

import (
	"regexp"
	"sync"
)

// LazyRegexp returns what compiles expr once, and panics there if it is none, as
// regexp.MustCompile does.
func LazyRegexp(expr string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(expr) })
}
