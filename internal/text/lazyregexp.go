// Compiling all of fettle's regular expressions takes longer than most verbs run. Most verbs
// use few or none of them.

package text

import (
	"regexp"
	"sync"
)

// LazyRegexp returns a function that compiles expr on its first call. Like regexp.MustCompile,
// it panics if expr is invalid.
func LazyRegexp(expr string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(expr) })
}
