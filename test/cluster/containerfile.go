package cluster

import (
	"encoding/json"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strings"
)

// Containerfile creates the image that a Containerfile describes, without a builder, and gives it
// to the node. sources maps the files of the build context to their paths. It supports the
// instructions that an image of a static program needs: FROM scratch, COPY, LABEL, USER,
// ENTRYPOINT.
func (c *Cluster) Containerfile(name, text string, sources map[string]string) {
	c.t.Helper()
	i, err := readContainerfile(text, sources)
	c.must(err)
	c.load(name, i)
}

func readContainerfile(text string, sources map[string]string) (i image, err error) {
	i.config = map[string]any{"WorkingDir": "/"}
	labels, began := map[string]string{}, false
	for n, line := range strings.Split(text, "\n") {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		instruction, rest, _ := strings.Cut(line, " ")
		rest = strings.TrimSpace(rest)
		if !began && instruction != "FROM" {
			return i, fmt.Errorf("line %d: %s before FROM", n+1, instruction)
		}
		switch instruction {
		case "FROM":
			if began || rest != "scratch" {
				err = fmt.Errorf("only one FROM scratch, not FROM %s", rest)
			}
			began = true
		case "COPY":
			err = i.copy(rest, sources)
		case "LABEL":
			err = readLabels(rest, labels)
			i.config["Labels"] = labels
		case "USER":
			i.config["User"] = rest
		case "ENTRYPOINT":
			var command []string
			err = json.Unmarshal([]byte(rest), &command)
			i.config["Entrypoint"] = command
		default:
			err = fmt.Errorf("%s is not known here", instruction)
		}
		if err != nil {
			return i, fmt.Errorf("line %d: %w", n+1, err)
		}
	}
	command, _ := i.config["Entrypoint"].([]string)
	for _, f := range i.files {
		if len(command) > 0 && command[0] == "/"+f.name {
			return i, nil
		}
	}
	return i, fmt.Errorf("nothing is copied to the entry point %v", command)
}

// copy carries out COPY SOURCE DESTINATION for one file, and keeps the mode of the source.
func (i *image) copy(rest string, sources map[string]string) error {
	words := strings.Fields(rest)
	if len(words) != 2 || strings.HasPrefix(words[0], "--") || !path.IsAbs(words[1]) || strings.HasSuffix(words[1], "/") {
		return fmt.Errorf("want COPY FILE /FILE, not COPY %s", rest)
	}
	file, ok := sources[words[0]]
	if !ok {
		return fmt.Errorf("the build's context has no %s", words[0])
	}
	st, err := os.Stat(file)
	if err != nil {
		return err
	}
	content, err := os.ReadFile(filepath.Clean(file))
	if err != nil {
		return err
	}
	i.files = append(i.files, tarFile{path.Clean(words[1])[1:], int64(st.Mode().Perm()), content})
	return nil
}

// readLabels is LABEL NAME="VALUE"...
func readLabels(rest string, into map[string]string) error {
	for rest = strings.TrimSpace(rest); rest != ""; rest = strings.TrimSpace(rest) {
		name, more, ok := strings.Cut(rest, `="`)
		value, tail, closed := strings.Cut(more, `"`)
		if !ok || !closed || name == "" || strings.ContainsAny(name, ` "`) || strings.Contains(value, `\`) {
			return fmt.Errorf(`want LABEL NAME="VALUE"..., not %s`, rest)
		}
		into[name], rest = value, tail
	}
	return nil
}
