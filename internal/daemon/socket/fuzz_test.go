package socket

import (
	"encoding/json"
	"testing"

	"fettle.dev/fettle/internal/daemon"
)

// FuzzRequest reads any text as a request: what is accepted has a version, a
// method and an id that JSON can repeat, and arguments of the method's types.
func FuzzRequest(f *testing.F) {
	f.Add([]byte(`{"jsonrpc":"2.0","method":"switch_profile","params":{"profile_name":"a"},"id":1}`))
	f.Add([]byte(`{"jsonrpc":"2.0","method":"instance_create","params":["a","b",{"k":"v"}],"id":"x"}`))
	f.Add([]byte(`{"jsonrpc":"2.0","method":"log_capture_start","params":[40,1e3],"id":null}`))
	f.Add([]byte(`{"jsonrpc":"2.0","method":"profiles","params":[],"ID":{}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		if !json.Valid(data) {
			return // handle refuses it before
		}
		var r request
		if unmarshalRequest(data, &r) != nil {
			return
		}
		if r.Version != "2.0" || r.Method == "" || r.ID != nil && !json.Valid(*r.ID) {
			t.Errorf("%q was accepted as %+v", data, r)
		}
		m, ok := daemon.Find(r.Method)
		if !ok {
			return
		}
		args, err := arguments(m, r.Params)
		if err != nil {
			return
		}
		if len(args) != len(m.In) {
			t.Fatalf("%q: %d arguments for %s", data, len(args), m.Name)
		}
		for i, in := range m.In {
			fits := false
			switch args[i].(type) {
			case int32:
				fits = in.Signature == "i"
			case string:
				fits = in.Signature == "s"
			case map[string]string:
				fits = in.Signature == "a{ss}"
			}
			if !fits {
				t.Errorf("%q: argument %s is %#v", data, in.Name, args[i])
			}
		}
	})
}
