package logformat

import (
	"errors"
	"fmt"
	"strings"
	"testing"
)

// Two numbers after nginx's combined log are the times of the request and its upstreams
// only if the lines allow it: up to rounding, the first one is longer.
func TestTailOrder(t *testing.T) {
	head := func(pairs ...[2]int) []byte {
		var b strings.Builder
		for i := range 60 {
			p := pairs[i%len(pairs)]
			fmt.Fprintf(&b, "10.0.0.%d - - [27/Nov/2026:09:00:%02d +0000] \"GET /x HTTP/1.1\" 200 512 \"-\" \"curl/8\" 0.%03d 0.%03d\n", i%9+1, i, p[0], p[1])
		}
		return []byte(b.String())
	}
	for name, c := range map[string]struct {
		head  []byte
		known bool
	}{
		"the request is longer":       {head([2]int{105, 100}, [2]int{300, 299}), true},
		"equal":                       {head([2]int{100, 100}), true},
		"rounded":                     {head([2]int{6, 7}, [2]int{9, 8}), true},
		"reversed within 10 ms":       {head([2]int{100, 105}, [2]int{290, 299}), false},
		"reversed, some equal":        {head([2]int{100, 105}, [2]int{50, 50}), false},
		"reversed by more than 10 ms": {head([2]int{100, 150}), false},
	} {
		_, err := Detect(c.head, nil)
		var unknown *UnknownError
		if (err == nil) != c.known || err != nil && !errors.As(err, &unknown) {
			t.Errorf("%s: %v, want known %v", name, err, c.known)
		}
	}
}
