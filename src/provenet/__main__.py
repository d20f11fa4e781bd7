"""`python -m provenet` is `provenet`; so `torchrun -m provenet` starts several processes of it."""

from provenet.cli import main

if __name__ == "__main__":
    main()
