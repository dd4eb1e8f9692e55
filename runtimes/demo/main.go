// Command demo is a small web server that says who it is, for trying out and testing a cluster. Its image has no shell: it does
// what a test needs of one itself, as a sub-command or under the sub-command's name.
//
//	demo [serve] [flags]     web server (the default); see serve.go for its paths
//	demo sleep SECONDS       sleep, ending early on SIGTERM
//	demo spin                burn one processor
//	demo hog MB              allocate and hold memory
//	demo exit CODE           end with a status
//	demo ignore-term         sleep for ever and ignore SIGTERM
//	demo echo TEXT...        print
//	demo env | hostname | id print what the container was given
//	demo cat FILE...         print files
//	demo ls [DIR...]         list directories
//	demo write FILE TEXT...  write a file
//	demo touch-later SECONDS FILE
//	demo fetch URL           GET it, print the body; status 22 for an answer of 400 and above
//	demo fill FILE MB        write a large file
//	demo tar cf - PATH... | tar xf - [-C DIR]  as much of tar as `kubectl cp` needs
//	demo sh [-c LINE]        a line at a time: any of these commands, `exit [CODE]`; enough for `kubectl exec -it`
//
// When it runs as a pod, the environment names the pod: POD_NAME, POD_NAMESPACE, POD_IP, NODE_NAME, filled from the downward API
// by whoever writes the pod.
package main

import (
	"os"
	"path/filepath"
	"strings"
)

func main() {
	args := os.Args[1:]
	if name := filepath.Base(os.Args[0]); commands[name] != nil { // a link in /bin
		args = append([]string{name}, args...)
	}
	if len(args) == 0 || strings.HasPrefix(args[0], "-") {
		args = append([]string{"serve"}, args...)
	}
	os.Exit(command(args, os.Stdin, os.Stdout, os.Stderr))
}
