package tune

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"fettle.dev/fettle/internal/engine/plugin"
	"fettle.dev/fettle/internal/setting"
)

// Required keys of the JSON form: a missing key would silently be read as zero.
var (
	planKeys = []string{"schema", "created", "machine", "generation", "steps"}
	stepKeys = []string{"setting", "before", "want", "action", "verdict", "reason", "stage"}
)

// maxStage is the largest accepted stage number, well above that of any real plan.
const maxStage = 1 << 20

// ReadPlan reads the JSON form of a plan. An error names the wrong value by its path in the
// document, such as steps[3].before.
func ReadPlan(text []byte) (*Plan, error) {
	var doc struct {
		Plan
		Steps []json.RawMessage `json:"steps"`
	}
	keys, err := object(text)
	if err != nil {
		return nil, err
	}
	var schema string
	if err := json.Unmarshal(keys["schema"], &schema); err != nil || schema != PlanSchema {
		return nil, fmt.Errorf("schema: %s: want %q", cmp.Or(string(keys["schema"]), "missing"), PlanSchema)
	}
	if err := lacks(keys, planKeys); err != nil {
		return nil, err
	}
	if err := json.Unmarshal(text, &doc); err != nil {
		return nil, wrongType(err)
	}
	if doc.Steps == nil {
		return nil, errors.New("steps is null; want a list")
	}
	p := doc.Plan
	p.Steps = make([]Step, len(doc.Steps))
	at := map[setting.Setting]int{}
	for i, raw := range doc.Steps {
		if err := readStep(raw, &p.Steps[i]); err != nil {
			return nil, fmt.Errorf("steps[%d]%w", i, err)
		}
		s := p.Steps[i].Setting
		if first, twice := at[s]; twice && p.Steps[i].Action != None && p.Steps[first].Action != None {
			return nil, fmt.Errorf("steps[%d].setting: %s is already set by steps[%d]", i, s, first)
		}
		at[s] = i
	}
	return &p, nil
}

// object decodes text as one JSON object.
func object(text []byte) (map[string]json.RawMessage, error) {
	d := json.NewDecoder(bytes.NewReader(text))
	var keys map[string]json.RawMessage
	if err := d.Decode(&keys); err != nil {
		return nil, err
	}
	if keys == nil {
		return nil, errors.New("null; want an object")
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("data after the first object")
	}
	return keys, nil
}

func lacks(keys map[string]json.RawMessage, wanted []string) error {
	for _, k := range wanted {
		if _, ok := keys[k]; !ok {
			return fmt.Errorf("%s: missing", k)
		}
	}
	return nil
}

// readStep reads one step of a plan. Its errors begin with the path within the step.
func readStep(raw json.RawMessage, st *Step) error {
	keys, err := object(raw)
	if err != nil {
		return fmt.Errorf(": %w", err)
	}
	values := []string{"before", "want"}
	_, known := keys["before"]
	if _, unknown := keys["unknown"]; unknown && !known {
		values = []string{"want"}
		keys["before"] = nil
	}
	if err := lacks(keys, stepKeys); err != nil {
		return fmt.Errorf(".%w", err)
	}
	for _, k := range values {
		var v struct {
			Text   *string `json:"text"`
			Base64 *string `json:"base64"`
		}
		if b := bytes.TrimSpace(keys[k]); b[0] == '{' && (json.Unmarshal(b, &v) != nil || v.Text == nil && v.Base64 == nil) {
			return fmt.Errorf(".%s: want the field text or base64", k)
		}
	}
	if err := json.Unmarshal(raw, st); err != nil {
		return fmt.Errorf(".%w", wrongType(err))
	}
	st.Before.Unknown = len(values) == 1
	for _, w := range []struct {
		key, is string
		known   []string
	}{
		{"action", string(st.Action), words(Write, Same, Release, None)},
		{"op", string(st.Op), words(setting.Set, setting.Raise, setting.Lower)},
		{"lifetime", string(st.Lifetime), append(words(setting.Lifetimes...), "")},
		{"verdict", string(st.Verdict), words(plugin.Verdicts...)},
	} {
		if !slices.Contains(w.known, w.is) {
			return fmt.Errorf(".%s: %q: want one of %q", w.key, w.is, w.known)
		}
	}
	switch {
	case st.Stage < 1 || st.Stage > maxStage:
		return fmt.Errorf(".stage: %d: want 1 to %d", st.Stage, maxStage)
	case st.Action != None && st.Before.Unknown:
		return errors.New(".before: missing; a setting that could not be read needs action none")
	case st.Action != None && len(st.Varies) > 0:
		return errors.New(".varies: a saved plan cannot write a load-dependent setting; want action none")
	}
	return nil
}

// wrongType returns an error that names the key whose value has the wrong type.
func wrongType(err error) error {
	var typ *json.UnmarshalTypeError
	if errors.As(err, &typ) && typ.Field != "" {
		return fmt.Errorf("%s: found a %s; want %s", strings.TrimPrefix(typ.Field, "Plan."), typ.Value, typ.Type)
	}
	return err
}

func words[T ~string](list ...T) []string {
	out := make([]string, len(list))
	for i, w := range list {
		out[i] = string(w)
	}
	return out
}
