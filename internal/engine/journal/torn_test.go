package journal

import (
	"bytes"
	"testing"
)

// A last record that is not whole is named; room set aside behind the last one is
// not.
func TestTornTailIsNamed(t *testing.T) {
	line, err := record{Start: &start{Version: 1, NextID: 1}}.encode()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		tail []byte
		torn bool
	}{{nil, false}, {make([]byte, 4096), false}, {line[:len(line)-1], true}, {append(bytes.Clone(line[:20]), make([]byte, 100)...), true}} {
		s, err := parse(append(bytes.Clone(line), c.tail...), "")
		if err != nil || s.Torn != c.torn || len(s.Damage) > 0 || s.Generation != 1 {
			t.Errorf("tail of %d bytes: torn %v, damage %v, %d records (%v), want torn %v", len(c.tail), s.Torn, s.Damage, s.Generation, err, c.torn)
		}
	}
}
