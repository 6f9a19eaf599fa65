package anchorfix;

/** The enum of the fixtures. */
public enum Colour { RED, GREEN, BLUE }
