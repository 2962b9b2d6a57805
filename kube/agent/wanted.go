package agent

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"
	"unicode"

	"fettle.dev/fettle/internal/engine/profile"
	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/kube/tuned"
)

// prepared caches the last loadable Profile object, so programs called by its functions do not run
// at every Look.
type prepared struct {
	sum    string
	wanted Wanted
}

// wanted returns a Profile object's request, or nil for no profile. It writes the texts into the
// agent's directory. Invalid texts set Wanted.Fault and are not an error.
func (m *agentMachine) wanted(ctx context.Context, p *tuned.Profile) (*Wanted, error) {
	if p == nil || p.Spec.Config.TunedProfile == "" {
		m.prepared = prepared{}
		return nil, nil
	}
	if owner := p.NodeTuningOwner(); owner != "" {
		m.prepared = prepared{}
		return &Wanted{Profile: p.Spec.Config.TunedProfile, Fault: theOperands(owner)}, nil
	}
	text, err := json.Marshal(p.Spec)
	if err != nil {
		return nil, err
	}
	mode, _ := tuned.Deferred(p.Annotations)
	sum := sum(text)
	if m.prepared.sum == sum {
		w := m.prepared.wanted
		w.Deferred = mode
		return &w, nil
	}
	w := Wanted{Profile: p.Spec.Config.TunedProfile, Deferred: mode}
	texts, bad := m.judge(p.Spec.Profile)
	if err := m.put(texts); err != nil {
		return nil, err
	}
	loaded, err := m.load(ctx, w.Profile)
	if fault := faultOf(loaded, err, bad); fault != "" {
		w.Fault = fault // the node may change, so check again
		return &w, nil
	}
	w.Origin = originOf(loaded, p.Spec.Config.TuneDConfig.ReapplySysctl)
	m.prepared = prepared{sum, w}
	return &w, nil
}

// theOperands explains why the agent ignores a Profile object of the Node Tuning Operator, whose
// operand handles it.
func theOperands(owner string) string {
	return "the Profile object belongs to the Node Tuning Operator (owner " + owner + "), which tunes the node; fettle's agent does nothing. To let fettle tune it, stop that operator and start fettle's with --adopt=tuned"
}

func sum(text []byte) string {
	s := sha256.Sum256(text)
	return hex.EncodeToString(s[:])
}

// judge returns the usable texts, and the others with the reason, by name. The operator checks them
// too, but the agent does not rely on that.
func (m *agentMachine) judge(all []tuned.TunedProfile) (texts, bad map[string]string) {
	texts, bad = map[string]string{}, map[string]string{}
	for _, p := range all {
		if !tuned.ValidName(p.Name) {
			bad[p.Name] = fmt.Sprintf("%q is not a valid name of a profile: %v", p.Name, profile.ErrName)
			continue
		}
		if other, twice := texts[p.Name]; twice && other != p.Data {
			bad[p.Name] = fmt.Sprintf("profile %s is defined twice with different content", p.Name)
			continue
		}
		texts[p.Name] = p.Data
		sections, err := profile.Sections(p.Name, []byte(p.Data))
		if err != nil {
			bad[p.Name] = fmt.Sprintf("profile %s cannot be read: %v", p.Name, err)
			continue
		}
		if found := tuned.Check(p.Name, sections, m.Allow); len(found) > 0 {
			bad[p.Name] = found[0].Reason("agent")
		}
	}
	for name := range bad {
		delete(texts, name)
	}
	return texts, bad
}

// faultOf returns why a profile cannot be applied, or "": it needs a rejected text, or the node's
// own profile of that name was used instead.
func faultOf(p *profile.Profile, err error, bad map[string]string) string {
	names := slices.Sorted(maps.Keys(bad))
	if err != nil {
		for _, name := range names {
			if slices.Contains(strings.FieldsFunc(err.Error(), func(r rune) bool { return !isOfName(r) }), name) {
				return bad[name]
			}
		}
		return err.Error()
	}
	for _, s := range p.Sources {
		if name := path.Base(path.Dir(s.Path)); bad[name] != "" && s.Kind == "profile" {
			return bad[name]
		}
	}
	return ""
}

// isOfName reports whether a rune may occur in a name.
func isOfName(r rune) bool {
	return r == '_' || r == '.' || r == '-' || unicode.IsLetter(r) || unicode.IsDigit(r)
}

// originOf returns a hash of a profile's source texts, those from the cluster and fettle's own. It
// ignores texts in the node's own directories; their changes take effect when the profile is next
// applied.
func originOf(p *profile.Profile, reapply *bool) string {
	h := sha256.New()
	fmt.Fprintln(h, p.Names)
	if reapply != nil {
		fmt.Fprintln(h, "reapply_sysctl", *reapply)
	}
	for _, s := range p.Sources {
		if profile.IsBuiltin(s.Path) || strings.HasPrefix(s.Path, profilesDir+"/") {
			fmt.Fprintln(h, s.Path, s.SHA256)
		}
	}
	return "profile:" + hex.EncodeToString(h.Sum(nil))
}

// load loads a profile with its present content, without forbidden scripts.
func (m *agentMachine) load(ctx context.Context, name string) (*profile.Profile, error) {
	l := m.loader
	l.Execute = true
	p, err := l.Load(ctx, name)
	if err == nil {
		withoutScripts(p, m.Allow)
	}
	return p, err
}

// put makes the agent's directory contain exactly these texts, by profile name.
func (m *agentMachine) put(texts map[string]string) error {
	for _, dir := range []string{Dir, profilesDir} {
		if err := m.mkdir(dir); err != nil {
			return err
		}
	}
	there, err := m.host.Files.ReadDir(profilesDir)
	if err != nil {
		return err
	}
	for _, d := range there {
		if _, ok := texts[d.Name()]; !ok {
			if err := m.remove(profilesDir + "/" + d.Name()); err != nil {
				return err
			}
		}
	}
	for name, text := range texts {
		dir := profilesDir + "/" + name
		if err := m.mkdir(dir); err != nil {
			return err
		}
		file := dir + "/tuned.conf"
		if old, err := m.host.Files.ReadFile(file); err == nil && string(old) == text {
			continue
		}
		if err := m.host.Files.Replace(file, []byte(text), host.Attr{Mode: 0o600}); err != nil {
			return err
		}
	}
	return nil
}

// mkdir creates a directory that only root can read.
func (m *agentMachine) mkdir(dir string) error {
	st, err := m.host.Files.Lstat(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return m.host.Files.Mkdir(dir, 0o700)
	case err != nil:
		return err
	case !st.IsDir():
		return fmt.Errorf("%s on the node is not a directory; remove it", dir)
	}
	return nil
}

// remove removes a file or a directory tree. It follows no symbolic links.
func (m *agentMachine) remove(p string) error {
	st, err := m.host.Files.Lstat(p)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if st.IsDir() {
		all, err := m.host.Files.ReadDir(p)
		if err != nil {
			return err
		}
		for _, d := range all {
			if err := m.remove(p + "/" + d.Name()); err != nil {
				return err
			}
		}
	}
	return m.host.Files.Remove(p)
}
