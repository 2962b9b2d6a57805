package socket

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"

	"fettle.dev/fettle/internal/daemon"
	"fettle.dev/fettle/internal/text"
)

// Error codes (JSON-RPC 2.0, section 5.1). The last one is from the range reserved for servers.
const (
	codeParse          = -32700
	codeInvalidRequest = -32600
	codeUnknownMethod  = -32601
	codeInvalidParams  = -32602
	codeUnauthorised   = -32000
)

// request is a call. Its id is a string, a number or null. Without an id it is a notification and
// gets no response.
type request struct {
	Version string           `json:"jsonrpc"`
	Method  string           `json:"method"`
	Params  json.RawMessage  `json:"params"`
	ID      *json.RawMessage `json:"id"`
}

// answered is a response with a result; failed is a response with an error.
type answered struct {
	Version string          `json:"jsonrpc"`
	ID      json.RawMessage `json:"id"`
	Result  any             `json:"result"`
}

type failed struct {
	Version string          `json:"jsonrpc"`
	ID      json.RawMessage `json:"id"`
	Error   rpcError        `json:"error"`
}

type rpcError struct {
	Code    int    `json:"code"`
	Message string `json:"message"`
	Data    any    `json:"data"` // text, or null
}

type notification struct {
	Version string `json:"jsonrpc"`
	Method  string `json:"method"`
	Params  []any  `json:"params"`
}

var null = json.RawMessage("null")

// failure returns an error response; id is nil if the request's id is unknown.
func failure(id json.RawMessage, code int, message, data string) failed {
	if id == nil {
		id = null
	}
	f := failed{"2.0", id, rpcError{Code: code, Message: message}}
	if data != "" {
		f.Error.Data = data
	}
	return f
}

// handle handles one request or batch, as JSON. It returns the response, or nil for none.
func (s *Server) handle(ctx context.Context, data []byte) any {
	data = bytes.TrimSpace(data)
	if !json.Valid(data) {
		var v any
		return failure(nil, codeParse, "Parse error", fmt.Sprint(json.Unmarshal(data, &v)))
	}
	if data[0] != '[' {
		return s.call(ctx, data)
	}
	var batch []json.RawMessage
	if err := json.Unmarshal(data, &batch); err != nil || len(batch) == 0 {
		return failure(nil, codeInvalidRequest, "Invalid Request", "empty batch")
	}
	var out []any
	for _, one := range batch {
		if r := s.call(ctx, one); r != nil {
			out = append(out, r)
		}
	}
	if out == nil {
		return nil
	}
	return out
}

// call handles one request. It returns nil for a notification.
func (s *Server) call(ctx context.Context, data []byte) any {
	var r request
	if err := unmarshalRequest(data, &r); err != nil {
		return failure(nil, codeInvalidRequest, "Invalid Request", err.Error())
	}
	var id json.RawMessage
	if r.ID != nil {
		id = *r.ID
	}
	respond := func(response any) any {
		if r.ID == nil {
			return nil
		}
		return response
	}
	m, ok := daemon.Find(r.Method)
	if !ok {
		return respond(failure(id, codeUnknownMethod, "Method not found", ""))
	}
	args, err := arguments(m, r.Params)
	if errors.Is(err, errNotStructured) {
		return respond(failure(id, codeInvalidRequest, "Invalid Request", err.Error()))
	}
	if err != nil {
		return respond(failure(id, codeInvalidParams, "Invalid params", err.Error()))
	}
	result, err := m.Call(ctx, s.target, args...)
	if err != nil {
		return respond(failure(id, codeInvalidParams, "Invalid params", err.Error()))
	}
	return respond(answered{"2.0", id, result})
}

func unmarshalRequest(data []byte, r *request) error {
	// A pointer to a RawMessage cannot tell null from absent; a map can.
	var members map[string]json.RawMessage
	if err := json.Unmarshal(data, &members); err != nil || members == nil {
		return errors.New("not an object")
	}
	if err := json.Unmarshal(data, r); err != nil {
		return err
	}
	if r.Version != "2.0" || r.Method == "" {
		return errors.New(`want an object with "jsonrpc": "2.0" and "method"`)
	}
	r.ID = nil
	if id, ok := members["id"]; ok {
		switch id[0] {
		case '{', '[', 't', 'f':
			return errors.New("id must be a string or a number")
		}
		r.ID = &id
	}
	return nil
}

var errNotStructured = errors.New("params must be an array or an object")

// arguments reads params by position or by name.
func arguments(m daemon.Method, params json.RawMessage) ([]any, error) {
	var given []json.RawMessage
	switch {
	case len(params) == 0 || string(params) == "null":
	case params[0] == '[':
		if err := json.Unmarshal(params, &given); err != nil {
			return nil, err
		}
	case params[0] == '{':
		var named map[string]json.RawMessage
		if err := json.Unmarshal(params, &named); err != nil {
			return nil, err
		}
		for _, in := range m.In {
			v, ok := named[in.Name]
			if !ok {
				return nil, fmt.Errorf("%s: argument %s is missing", m.Name, in.Name)
			}
			given = append(given, v)
			delete(named, in.Name)
		}
		for name := range named {
			return nil, fmt.Errorf("%s has no argument %s", m.Name, name)
		}
	default:
		return nil, errNotStructured
	}
	if len(given) != len(m.In) {
		return nil, text.Errorf("%s takes %s, not %d", m.Name, text.Count(len(m.In), "argument"), len(given))
	}
	args := make([]any, len(given))
	for i, in := range m.In {
		v, err := argument(in, given[i])
		if err != nil {
			return nil, fmt.Errorf("%s: argument %s: %w", m.Name, in.Name, err)
		}
		args[i] = v
	}
	return args, nil
}

// argument converts a JSON value to the Go type of the argument's signature.
func argument(in daemon.Argument, data json.RawMessage) (any, error) {
	switch in.Signature {
	case "i":
		var n json.Number
		if err := json.Unmarshal(data, &n); err != nil || data[0] == '"' {
			return nil, errors.New("not a number")
		}
		v, err := n.Int64()
		if err != nil || v < math.MinInt32 || v > math.MaxInt32 {
			return nil, errors.New("not a 32-bit integer")
		}
		return int32(v), nil
	case "s":
		var s *string
		if err := json.Unmarshal(data, &s); err != nil || s == nil {
			return nil, errors.New("not a string")
		}
		return *s, nil
	}
	var table map[string]*string
	if err := json.Unmarshal(data, &table); err != nil || table == nil {
		return nil, errors.New("not an object with string values")
	}
	texts := make(map[string]string, len(table))
	for key, value := range table {
		if value == nil {
			return nil, errors.New("not an object with string values")
		}
		texts[key] = *value
	}
	return texts, nil
}
