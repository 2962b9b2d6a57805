package evidence

import (
	"encoding/json"
	"maps"
	"strings"
	"testing"
)

// TestBytes: a record with bytes that are not UTF-8 can be read again and
// preserves the bytes.
func TestBytes(t *testing.T) {
	odd := func(n int) *Run {
		r := run(n)
		r.Command, r.User, r.Verdict = "fettle prove -- cat a\xffb\xc3 \ufffd ö", "\xfe", "faster\x80"
		r.Machine.Model = "\xe4cme"
		r.Machine.Settings = map[string]string{"sysfs:\xff": "\xfe\xfd"}
		body, err := json.Marshal(map[string]string{"command": "cat \xff <&>"})
		if err != nil {
			t.Fatal(err)
		}
		r.Body = body
		return r
	}
	s := Store{t.TempDir() + "/runs"}
	put := odd(1)
	if err := s.Put(put); err != nil {
		t.Fatal(err)
	}
	u, err := s.Begin(odd(2))
	if err != nil {
		t.Fatal(err)
	}
	if err := u.Append(map[string]string{"output": "\xff"}); err != nil {
		t.Fatal(err)
	}
	if err := u.Close(); err != nil {
		t.Fatal(err)
	}
	if u, err = s.Resume(u.Name(), func([]byte) error { return nil }); err != nil {
		t.Fatal(err)
	}
	u.Run.Verdict = "slower\xff"
	if err := s.Finish(u); err != nil {
		t.Fatal(err)
	}
	all, err := s.All()
	if err != nil || len(all) != 2 {
		t.Fatal(len(all), err)
	}
	for _, r := range all {
		if want := `fettle prove -- cat a\xffb\xc3 ` + "\ufffd ö"; r.Command != want {
			t.Errorf("%q, want %q", r.Command, want)
		}
		if r.User != `\xfe` || !strings.HasSuffix(r.Verdict, `r\x80`) && !strings.HasSuffix(r.Verdict, `r\xff`) || r.Machine.Model != `\xe4cme` ||
			!maps.Equal(r.Machine.Settings, map[string]string{`sysfs:\xff`: `\xfe\xfd`}) {
			t.Errorf("%q %q %q %q", r.User, r.Verdict, r.Machine.Model, r.Machine.Settings)
		}
	}
	if got, err := s.Get(put.ID); err != nil || got.Command != put.Command {
		t.Error(err)
	}
}
