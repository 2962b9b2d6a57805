package rule

import (
	"os/exec"
	"strings"
	"testing"

	"fettle.dev/fettle/internal/text"
)

// TestQuote: a word is the same for sh as it was, and stands on one line.
func TestQuote(t *testing.T) {
	for _, word := range []string{"plain", "", "a b", "it's", "one\ntwo", "if true\nthen echo 'x' \\n 100% `y` $z \"q\"\nfi", "-n\nx", "a\tb", "bell\a\n\x7f", "ends\n", "ö\nü"} {
		line := text.Quote(word)
		if strings.Contains(line, "\n") && !strings.HasSuffix(word, "\n") {
			t.Errorf("%q: %q is no line", word, line)
		}
		out, err := exec.Command("sh", "-c", `for word in `+line+`; do printf %s. "$word"; done`).Output()
		if err != nil || string(out) != word+"." {
			t.Errorf("%q: %s is %q (%v)", word, line, out, err)
		}
	}
}
