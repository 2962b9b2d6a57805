package scenario

import (
	"encoding/hex"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// datum is a value that is drawn for each host from the seed.
type datum struct {
	name string
	slot slot
	hash uint64
	draw func(host int, r *rand.Rand) string
	list []string // for for_each, instead of draw
	// Secret reports a value from the environment or a file, which no record may hold.
	secret bool
}

// data reads the values that hosts have.
func (p *parser) data(f *fields) error {
	n := f.of["data"]
	if n == nil {
		return nil
	}
	of, err := p.mapping(n, "data")
	if err != nil {
		return err
	}
	for _, name := range of.list {
		if err := p.nameOf(of.keys[name], "data"); err != nil {
			return err
		}
		d, err := p.datum(of.of[name])
		if err != nil {
			return err
		}
		h := fnv.New64a()
		h.Write([]byte(name))
		d.name, d.hash = name, h.Sum64()
		d.slot = p.x.names.define(name, "data", d.list != nil)
		p.x.data = append(p.x.data, d)
	}
	return nil
}

// datum reads one value: a constant, or how it is drawn.
func (p *parser) datum(n *yaml.Node) (datum, error) {
	if n.Kind == yaml.ScalarNode {
		text, err := p.scalar(n, "data")
		return constantDatum(text, false), err
	}
	f, err := p.mapping(n, "data", "uuid", "choice", "int", "hex", "lines", "pick", "env", "file")
	if err != nil {
		return datum{}, err
	}
	kinds := len(f.list)
	if f.of["pick"] != nil {
		kinds--
		if f.of["lines"] == nil {
			return datum{}, p.at(f.keys["pick"]).errorf("data: pick needs lines")
		}
	}
	if kinds != 1 {
		return datum{}, f.at.errorf("data: want one of uuid, choice, int, hex, lines, env and file")
	}
	for key, read := range map[string]func(*fields) (datum, error){"uuid": readUUID, "choice": readChoice, "int": readInt, "hex": readHex, "lines": readLines, "env": readEnv, "file": readSecret} {
		if f.of[key] != nil {
			return read(f)
		}
	}
	return datum{}, f.at.errorf("data: want one of uuid, choice, int, hex, lines, env and file")
}

func constantDatum(text string, secret bool) datum {
	return datum{draw: func(int, *rand.Rand) string { return text }, secret: secret}
}

func readUUID(f *fields) (datum, error) {
	yes, err := f.truth("uuid")
	if err == nil && !yes {
		err = f.at.errorf("data: want uuid: true")
	}
	return datum{draw: func(_ int, r *rand.Rand) string {
		a, b := r.Uint64()&^0xf000|0x4000, r.Uint64()&^(3<<62)|2<<62 // version 4 (RFC 9562, 5.4)
		return fmt.Sprintf("%08x-%04x-%04x-%04x-%012x", a>>32, a>>16&0xffff, a&0xffff, b>>48, b&0xffffffffffff)
	}}, err
}

func readChoice(f *fields) (datum, error) {
	items, err := f.p.items(f.of["choice"], "choice")
	if err != nil {
		return datum{}, err
	}
	var all []string
	for _, one := range items {
		all = append(all, one.Value)
	}
	if len(all) == 0 {
		return datum{}, f.at.errorf("data: choice: want at least one value")
	}
	return datum{draw: func(_ int, r *rand.Rand) string { return all[r.IntN(len(all))] }}, nil
}

func readInt(f *fields) (datum, error) {
	word, err := f.word("int")
	if err != nil {
		return datum{}, err
	}
	from, to, ok := strings.Cut(word, "..")
	least, err1 := strconv.ParseInt(from, 10, 64)
	most, err2 := strconv.ParseInt(to, 10, 64)
	if !ok || err1 != nil || err2 != nil || least > most || least < -maxNumber || most > maxNumber {
		return datum{}, f.p.at(f.of["int"]).errorf("data: int: want a range such as 1..100")
	}
	return datum{draw: func(_ int, r *rand.Rand) string { return strconv.FormatInt(least+r.Int64N(most-least+1), 10) }}, nil
}

func readHex(f *fields) (datum, error) {
	n, err := f.whole("hex", 0, 1, 1024)
	return datum{draw: func(_ int, r *rand.Rand) string {
		b := make([]byte, n/2+1)
		for i := range b {
			b[i] = byte(r.Uint32())
		}
		return hex.EncodeToString(b)[:n]
	}}, err
}

// readLines reads a file with a value a line.
func readLines(f *fields) (datum, error) {
	text, err := f.p.content(f.of["lines"])
	if err != nil {
		return datum{}, err
	}
	var all []string
	for line := range strings.Lines(string(text)) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") {
			all = append(all, line)
		}
	}
	if len(all) == 0 || len(all) > maxData {
		return datum{}, f.p.at(f.of["lines"]).errorf("data: lines: want 1 to %d lines, not %d", maxData, len(all))
	}
	pick, err := f.word("pick")
	switch {
	case err != nil:
		return datum{}, err
	case pick == "":
		return datum{list: all}, nil
	case pick == "next":
		return datum{draw: func(host int, _ *rand.Rand) string { return all[max(0, host-1)%len(all)] }}, nil
	case pick == "random":
		return datum{draw: func(_ int, r *rand.Rand) string { return all[r.IntN(len(all))] }}, nil
	}
	return datum{}, f.p.at(f.of["pick"]).errorf("data: pick: want next or random")
}

// readEnv reads a secret from the environment.
func readEnv(f *fields) (datum, error) {
	name, err := f.word("env")
	if err != nil {
		return datum{}, err
	}
	text, ok := f.p.env(name)
	if !ok {
		return datum{}, f.p.at(f.of["env"]).errorf("data: environment variable %s is not set", name)
	}
	return constantDatum(text, true), nil
}

// readSecret reads a secret from the first line of a file.
func readSecret(f *fields) (datum, error) {
	text, err := f.p.content(f.of["file"])
	line, _, _ := strings.Cut(string(text), "\n")
	return constantDatum(strings.TrimSuffix(line, "\r"), true), err
}

// drawAll sets the values of a host.
func (s *Scenario) drawAll(values []value, host int, seed uint64) {
	for i := range s.data {
		d := &s.data[i]
		if d.list != nil {
			values[d.slot] = value{list: d.list, isSet: true}
			continue
		}
		r := rand.New(rand.NewPCG(seed^d.hash, uint64(host)))
		values[d.slot] = value{text: d.draw(host, r), isSet: true}
	}
}
