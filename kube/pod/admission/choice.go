package admission

// maxOutcomes bounds how many choices of devices are gone through.
const maxOutcomes = 256

// choices goes through everything that can come of choices which cannot be known. A
// prediction asks at each choice; it is made again until every answer has been given.
type choices struct {
	made  []int // the answers of this round
	sizes []int
	at    int
}

// one answers a choice between n things.
func (c *choices) one(n int) int {
	if n < 2 {
		return 0
	}
	if c.at == len(c.made) {
		c.made, c.sizes = append(c.made, 0), append(c.sizes, n)
	}
	c.at++
	return c.made[c.at-1]
}

// next sets the answers of the next round; false if there is none.
func (c *choices) next() bool {
	c.at = 0
	for len(c.made) > 0 {
		last := len(c.made) - 1
		if c.made[last]++; c.made[last] < c.sizes[last] {
			return true
		}
		c.made, c.sizes = c.made[:last], c.sizes[:last]
	}
	return false
}

// first takes devices where it does not matter which.
func first(of []string, number int, _ map[string]Mask) []string { return of[:number] }

// devices chooses a number of devices. Within a class the first are taken: the others
// would do as well.
func (c *choices) devices(of []string, number int, class map[string]Mask) []string {
	var order []Mask
	byClass := map[Mask][]string{}
	for _, id := range of {
		if byClass[class[id]] == nil {
			order = append(order, class[id])
		}
		byClass[class[id]] = append(byClass[class[id]], id)
	}
	var out []string
	left, behind := number, len(of)
	for _, k := range order {
		list := byClass[k]
		behind -= len(list)
		least := max(0, left-behind) // what the classes behind cannot give
		most := min(left, len(list))
		n := most - c.one(most-least+1)
		out = append(out, list[:n]...)
		left -= n
	}
	return out
}
