package run

import "errors"

var errNoUID = errors.New("the server's answer has no uid")

// uidOf is metadata.uid of an object. It is looked for by hand: encoding/json would grow
// the stack of each of thousands of workers, which then all keep it.
func uidOf(object []byte) (string, error) {
	depth, meta := 0, false // meta: within metadata, at depth 2
	key := ""               // the last text at this depth, where a colon follows
	for i := 0; i < len(object); i++ {
		switch object[i] {
		case '{', '[':
			if depth++; depth == 2 {
				meta = key == "metadata" && object[i] == '{'
			}
			key = ""
		case '}', ']':
			if depth--; depth < 2 {
				meta = false
			}
		case ',':
			key = ""
		case '"':
			end := i + 1
			for end < len(object) && object[end] != '"' {
				if object[end] == '\\' {
					end++
				}
				end++
			}
			if end >= len(object) {
				return "", errNoUID
			}
			text := object[i+1 : end]
			i = end
			switch {
			case depth == 2 && meta && key == "uid" && len(text) > 0:
				return string(text), nil
			case depth == 1 && string(text) == "metadata", depth == 2 && meta && string(text) == "uid":
				if key == "" { // it is no value
					key = string(text)
					continue
				}
			}
			if key == "" {
				key = "other"
			}
		}
	}
	return "", errNoUID
}
