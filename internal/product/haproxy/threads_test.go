package haproxy

import (
	"testing"

	"fettle.dev/fettle/internal/fact"
	"fettle.dev/fettle/internal/testkit/machine"
)

// Where HAProxy cannot be asked, nbthread of its files is the number of its threads from the
// next start; without nbthread it is not known.
func TestThreadsOfFiles(t *testing.T) {
	for text, want := range map[string]fact.Answer{
		"global\n  nbthread 2\n": {Value: 2.0, At: "/etc/haproxy/haproxy.cfg:2", From: fact.Files},
		"global\n  maxconn 9\n":  {},
	} {
		all, err := Product.Find(t.Context(), machine.Mounted(t, map[string]string{"etc/haproxy/haproxy.cfg": text}))
		if err != nil || len(all) != 1 {
			t.Fatal(all, err)
		}
		a := all[0].Answer("threads")
		if want.Value == nil {
			if a.Unknown == "" || a.Value != nil {
				t.Errorf("%q: %+v, want unknown", text, a)
			}
		} else if a != want {
			t.Errorf("%q: %+v, want %+v", text, a, want)
		}
	}
}
