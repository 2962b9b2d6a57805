// All of fettle's regular expressions take longer to compile than most verbs run, and most
// verbs use few or none of them.

package text

import (
	"regexp"
	"sync"
)

// LazyRegexp returns a function that compiles expr once, and panics if it is
// invalid, as regexp.MustCompile does.
func LazyRegexp(expr string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(expr) })
}
