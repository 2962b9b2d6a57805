//go:build !kubernetes_1_29 && !kubernetes_1_31 && !kubernetes_1_33 && !kubernetes_1_35 && !kubernetes_1_36 && !kubernetes_1_37

package upstream

const release = 34
