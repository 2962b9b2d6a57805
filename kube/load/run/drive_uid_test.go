package run

import (
	"encoding/json"
	"testing"
)

var driveAnswers = map[string]string{
	`{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"a","uid":"0e5b-1","labels":{"uid":"no"}},"data":{"uid":"no"}}`:                                   "0e5b-1",
	`{"aaa":{"uid":"no","metadata":{"uid":"no"}},"metadata":{"annotations":{"uid":"no","x":"\\",\"uid\":\"no"},"ownerReferences":[{"uid":"no"}],"uid": "yes"}}`: "",
	`{"aaa":{"uid":"no","metadata":{"uid":"no"}},"metadata":{"annotations":{"uid":"no","x":"\"uid\":\"no\\"},"ownerReferences":[{"uid":"no"}],"uid" : "yes"}}`:  "yes",
	`{"kind":"metadata","x":{"uid":"no"},"metadata":{"name":"uid","namespace":"uid","uid":"yes"}}`:                                                              "yes",
	`{"metadata":[{"uid":"no"}]}`:                "",
	`{"metadata":{"uid":""}}`:                    "",
	`{"metadata":{"name":"uid"},"uid":"no"}`:     "",
	`{"metadata":{"name":"a"},"b":{"uid":"no"}}`: "",
	`{"metadata":{"uid":"cut`:                    "",
	`[]`:                                         "", ``: "", `"`: "", `{`: "", `}}}}`: "",
}

func TestUID(t *testing.T) {
	for text, want := range driveAnswers {
		got, err := uidOf([]byte(text))
		if !json.Valid([]byte(text)) {
			want = "" // whatever it is, it is no panic
			if err == nil {
				continue
			}
		}
		if got != want || (err == nil) != (want != "") {
			t.Errorf("%s: %q %v, want %q", text, got, err, want)
		}
	}
}

func FuzzUID(f *testing.F) {
	for text := range driveAnswers {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		got, err := uidOf(text)
		var o map[string]json.RawMessage
		if json.Unmarshal(text, &o) != nil {
			return
		}
		var meta map[string]json.RawMessage
		if json.Unmarshal(o["metadata"], &meta) != nil {
			meta = nil
		}
		// A name that is there twice, or is written with escapes, is nothing that a server
		// of Kubernetes sends.
		var want string
		if json.Unmarshal(meta["uid"], &want) == nil && want != "" && err == nil && string(meta["uid"]) == `"`+want+`"` && got != want && count(text, "metadata") == 1 && count(text, "uid") == 1 {
			t.Errorf("%s: %q, want %q", text, got, want)
		}
	})
}

func count(text []byte, word string) (n int) {
	for i := 0; i+len(word) <= len(text); i++ {
		if string(text[i:i+len(word)]) == word {
			n++
		}
	}
	return n
}
